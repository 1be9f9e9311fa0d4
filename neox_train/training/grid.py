"""This process on the grid of ranks, with a process group for each axis."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch

from neox_train.config.grid import AXES, Axis, GridShape, Place
from neox_train.model.parallel.group import TensorGroup


@dataclass(frozen=True, kw_only=True)
class ParallelGrid:
    """Sizes, this rank's coordinates and groups; it is also the ``mpu`` that DeepSpeed asks.

    To DeepSpeed "model parallel" are the ranks that hold different parts of one replica: tensor shards here, because
    a pipeline has an engine and a grid of its own.
    """

    shape: GridShape
    rank: int
    groups: dict[Axis, Any] = field(default_factory=dict)
    """Process group of each axis; None for an axis of one rank."""

    @property
    def place(self) -> Place:
        """This rank's coordinates."""
        return self.shape.place_of(self.rank)

    @property
    def tensor_group(self) -> TensorGroup:
        """What the model's layers need to know."""
        return TensorGroup(rank=self.place.tp, size=self.shape.tp, process_group=self.groups.get("tp"))

    def get_model_parallel_rank(self) -> int:
        """DeepSpeed's word for the tensor-parallel rank."""
        return self.place.tp

    def get_model_parallel_world_size(self) -> int:
        """DeepSpeed's word for the tensor-parallel degree."""
        return self.shape.tp

    def get_model_parallel_group(self) -> Any:
        """DeepSpeed's word for the tensor-parallel group."""
        return self.groups["tp"]

    def get_data_parallel_rank(self) -> int:
        """This rank among those that hold the same weights."""
        return self.place.dp

    def get_data_parallel_world_size(self) -> int:
        """Number of replicas."""
        return self.shape.dp

    def get_data_parallel_group(self) -> Any:
        """The ranks that hold the same weights."""
        return self.groups["dp"]

    def get_data_parallel_group_ranks(self) -> list[int]:
        """Global ranks of the data-parallel group."""
        return list(next(ranks for ranks in self.shape.list_groups("dp") if self.rank in ranks))


def build_grid(shape: GridShape, rank: int) -> ParallelGrid:
    """Make the process groups of every axis; collective over all ranks, in one order."""
    groups: dict[Axis, Any] = {}
    for axis in AXES:
        if getattr(shape, axis) == 1 and (axis != "dp" or shape.size == 1):
            # Groups of one rank each take long to make on hundreds of ranks; DeepSpeed asks for the replicas' only.
            continue
        for ranks in shape.list_groups(axis):
            made = torch.distributed.new_group(list(ranks), group_desc=axis)
            if rank in ranks:
                groups[axis] = made
    return ParallelGrid(shape=shape, rank=rank, groups=groups)
