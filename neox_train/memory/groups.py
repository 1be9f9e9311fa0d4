"""Optimizer groups as DeepSpeed flattens, pads and cuts them."""

from __future__ import annotations

from dataclasses import dataclass

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

    def count_touched(self, rank: int) -> int:
        """Elements of the parameters that have any part in ``rank``'s share, counted whole."""
        first, last = self.partition * rank, self.partition * (rank + 1)
        total, start = 0, 0
        for size in self.sizes:
            if start < last and start + size > first:
                total += size
            start += size
        return total


def list_groups(plan: RankPlan) -> list[FlatGroup]:
    """The optimizer groups of a rank: decayed parameters, then the others; one group when nothing decays."""
    table = list_parameters(plan.architecture)
    if not plan.has_decay_groups:
        return [FlatGroup(tuple(p.count for p in table), plan.data_parallel_size)]
    groups = [tuple(p.count for p in table if p.decays is decays) for decays in (True, False)]
    return [FlatGroup(sizes, plan.data_parallel_size) for sizes in groups if sizes]


def count_partition_gradients(groups: list[FlatGroup]) -> int:
    """Elements of the gradient buffer of the most loaded rank: whole parameters that touch its share (ZeRO 1, 2)."""
    ranks = range(groups[0].data_parallel_size)
    return max(sum(group.count_touched(rank) for group in groups) for rank in ranks)
