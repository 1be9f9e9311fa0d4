"""One rank of trainings with auto in turn: ``python -m tests.training.compression.auto_worker JOB``.

JOB is a JSON file: ``legs``, a list of run folders with ``bytes_per_second`` of the link (None: as it is) in which each
is trained. Every all-reduce waits for its bytes at that rate, as over a slow link. Rank 0 writes what was measured at
``probe_bytes_per_second`` to ``link.json`` beside JOB.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

import torch

from neox_train.training.compression.measure import measure_link
from neox_train.training.distributed import start_process_group
from neox_train.training.entry import train_rank

rate: dict[str, float | None] = {"bytes_per_second": None}


def slow_down(all_reduce: Any) -> Any:
    """The collective at the rate that holds: between two ranks the bytes of the buffer pass the link."""

    def slow(tensor: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        if rate["bytes_per_second"] is not None:
            time.sleep(tensor.numel() * tensor.element_size() / rate["bytes_per_second"])
        return all_reduce(tensor, *args, **kwargs)

    return slow


def main() -> None:
    """Measure the link, then train every leg."""
    job = json.loads(Path(sys.argv[1]).read_text())
    # With the signature of the real one: what counts traffic reads it.
    slow = slow_down(torch.distributed.all_reduce)
    slow.__wrapped__ = torch.distributed.all_reduce
    torch.distributed.all_reduce = slow
    context = start_process_group("gloo")
    rate["bytes_per_second"] = job["probe_bytes_per_second"]
    began = time.perf_counter()
    link = measure_link(context, 10**9)
    seconds = time.perf_counter() - began
    if context.is_main:
        record = {"gb_per_second": link.gb_per_second, "latency_seconds": link.latency_seconds, "seconds": seconds}
        Path(sys.argv[1]).with_name("link.json").write_text(json.dumps(record))
    for leg in job["legs"]:
        rate["bytes_per_second"] = leg["bytes_per_second"]
        Path(leg["run"], "config.yml").write_text(leg["config"])
        torch.distributed.barrier()
        print(f"leg {leg['name']}", flush=True)
        train_rank(leg["run"])


main()
