"""One rank that trains with ZeRO++'s quantised collectives: ``python -m tests.training.zeropp_worker JOB``.

JOB as for ``tests.training.compression.worker``. Ranks may share one GPU, which NCCL refuses: then gloo carries what
collectives hold, copied to the host and back, and DeepSpeed's kernels run on the GPU as they are.
"""

from __future__ import annotations

import functools
import inspect
import sys
from pathlib import Path
from typing import Any

import torch

KINDS = ("all_gather_into_tensor", "reduce_scatter_tensor", "all_to_all_single")
"""Collectives ``(output, input, ...)`` that gloo has for host memory."""


class Done:
    """A collective that is over."""

    def wait(self, *args: Any, **kwargs: Any) -> bool:
        return True

    def is_completed(self) -> bool:
        return True


def through_host(original: Any) -> Any:
    """The collective by way of host memory; its first two arguments are what it fills and what it takes.

    Both go flat: NCCL sees elements only, and DeepSpeed gathers scales [n, 1] into a flat tensor, which gloo refuses.
    """
    signature = inspect.signature(original)

    @functools.wraps(original)
    def carry(*args: Any, **kwargs: Any) -> Any:
        bound = signature.bind(*args, **kwargs)
        is_async = bound.arguments.pop("async_op", False)
        (filled, output), (taken, given) = list(bound.arguments.items())[:2]
        received = torch.empty(output.numel(), dtype=output.dtype)
        bound.arguments |= {filled: received, taken: given.reshape(-1).cpu()}
        original(**bound.arguments)
        output.copy_(received.view_as(output))
        return Done() if is_async else None

    return carry


def main() -> None:
    """Train every method of the job."""
    backend = "nccl" if torch.cuda.device_count() > 1 else "gloo"
    if backend == "gloo":
        for kind in KINDS:
            setattr(torch.distributed, kind, through_host(getattr(torch.distributed, kind)))
    from neox_train.training.distributed import start_process_group
    from tests.training.compression.worker import run_methods

    context = start_process_group(backend)
    if backend == "gloo":
        # torch would make DeepSpeed's groups of some ranks by a split that NCCL alone has.
        torch.distributed.group.WORLD.bound_device_id = None  # type: ignore[union-attr]
    run_methods(Path(sys.argv[1]), context)


if __name__ == "__main__":
    main()
