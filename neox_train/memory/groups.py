"""Optimizer groups as DeepSpeed flattens, pads and cuts them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from neox_train.config.architecture import Architecture
from neox_train.config.parameters import list_parameters
from neox_train.memory.plan import RankPlan

_ALIGNMENT = 2
"""DeepSpeed pads every flat group to a multiple of this times the data-parallel size (4-byte starts in 16 bits)."""


@dataclass(frozen=True, slots=True)
class FlatGroup:
    """One optimizer group: the element counts of its parameters, in order, for a data-parallel size."""

    sizes: tuple[int, ...]
    data_parallel_size: int

    @property
    def count(self) -> int:
        """Elements without padding."""
        return sum(self.sizes)

    @property
    def padded(self) -> int:
        """Elements of the flat tensor."""
        multiple = _ALIGNMENT * self.data_parallel_size
        return -(-self.count // multiple) * multiple

    @property
    def partition(self) -> int:
        """Elements of one rank's share of the flat tensor."""
        return self.padded // self.data_parallel_size

    def list_touched(self) -> list[int]:
        """For every rank the elements of the parameters that have any part in its share, counted whole."""
        touched = [0] * self.data_parallel_size
        start = 0
        for size in self.sizes:
            for rank in range(start // self.partition, (start + size - 1) // self.partition + 1):
                touched[rank] += size
            start += size
        return touched


def list_groups(plan: RankPlan) -> tuple[FlatGroup, ...]:
    """The optimizer groups of a rank: decayed parameters, then the others; one group when nothing decays."""
    return _build_groups(plan.architecture, plan.has_decay_groups, plan.data_parallel_size)


@lru_cache(maxsize=256)
def count_partition_gradients(groups: tuple[FlatGroup, ...]) -> int:
    """Elements of the gradient buffer of the most loaded rank: whole parameters that touch its share (ZeRO 1, 2)."""
    return max(map(sum, zip(*(group.list_touched() for group in groups), strict=True)))


@lru_cache(maxsize=256)
def _build_groups(architecture: Architecture, has_decay_groups: bool, ranks: int) -> tuple[FlatGroup, ...]:
    """Kept, because the search for remedies asks for the same groups hundreds of times."""
    table = list_parameters(architecture)
    wanted = (True, False) if has_decay_groups else (None,)
    sizes = [tuple(p.count for p in table if decays is None or p.decays is decays) for decays in wanted]
    return tuple(FlatGroup(group, ranks) for group in sizes if group)
