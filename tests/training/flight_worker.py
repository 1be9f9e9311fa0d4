"""One rank of two, of which the second never comes to the third collective: ``python -m ... FOLDER``; both stall."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import torch
import torch.distributed as dist

from neox_train.monitoring.flight_recorder import recorder_variables
from neox_train.training.stall import StallWatch, report_stalls_to

_STALL_SECONDS = 2.0


def main() -> None:
    """Three collectives in a group of its own, the last by one rank only."""
    folder = Path(sys.argv[1])
    os.environ.update(recorder_variables(folder))
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    group = dist.new_group([0, 1], group_desc="dp")
    report_stalls_to((folder / f"sentence-{rank}").write_text)
    with StallWatch(rank, limit_seconds=_STALL_SECONDS) as watch:
        for step in (1, 2):
            dist.all_reduce(torch.ones(6), group=group)
            watch.beat(step)
        if rank == 1:
            time.sleep(600)
        dist.all_reduce(torch.ones(8, 3), group=group)


main()
