"""A rank that ends right after its last collective, as a training does: ``python -m tests.training.leaving_worker``."""

from __future__ import annotations

import torch
import torch.distributed as dist

from neox_train.training.distributed import leave_at_exit

dist.init_process_group("gloo")
HELD = dist.group.WORLD
"""To the end, as DeepSpeed and an engine hold theirs: then nothing waits for its threads."""


def main() -> None:
    """Take part in twenty sums and messages, and leave."""
    for count in range(20):
        dist.all_reduce(torch.zeros(100 + count))
        dist.broadcast_object_list([count], src=0)
    leave_at_exit()


if __name__ == "__main__":
    main()
