"""One rank that trains with ZeRO++'s quantised collectives: ``python -m tests.training.zeropp_worker JOB``.

JOB as for ``tests.training.compression.worker``. Ranks may share one GPU, which NCCL refuses: then gloo carries what
collectives hold, copied to the host and back, and DeepSpeed's kernels run on the GPU as they are.
"""

from __future__ import annotations

import functools
import inspect
import json
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
    """The collective by way of host memory; its first two arguments are what it fills and what it takes."""
    signature = inspect.signature(original)

    @functools.wraps(original)
    def carry(*args: Any, **kwargs: Any) -> Any:
        bound = signature.bind(*args, **kwargs)
        is_async = bound.arguments.pop("async_op", False)
        (filled, output), (taken, given) = list(bound.arguments.items())[:2]
        bound.arguments |= {filled: torch.empty_like(output, device="cpu"), taken: given.cpu()}
        original(**bound.arguments)
        output.copy_(bound.arguments[filled])
        return Done() if is_async else None

    return carry


def main() -> None:
    """Train every method of the job."""
    job_file = Path(sys.argv[1])
    backend = "nccl" if torch.cuda.device_count() > 1 else "gloo"
    if backend == "gloo":
        for kind in KINDS:
            setattr(torch.distributed, kind, through_host(getattr(torch.distributed, kind)))
    from neox_train.training.distributed import leave_at_exit, start_process_group
    from tests.training.compression.worker import train

    job = json.loads(job_file.read_text())
    context = start_process_group(backend)
    for name in job["methods"]:
        record = {"whole": train(job, name, context), "resumed": train(job, name, context, resume=True)}
        if context.is_main:
            (Path(job["results"]) / f"{name}.json").write_text(json.dumps(record))
    leave_at_exit()


if __name__ == "__main__":
    main()
