"""What ZeRO-Offload keeps in host memory, and what stays on the device for it, as DeepSpeed 0.19.6 allocates both."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from neox_train.memory.groups import FlatGroup, list_groups, pair_states
from neox_train.memory.optimizers import count_state_bytes, count_step_bytes
from neox_train.memory.plan import RankPlan

_FP32 = 4


@dataclass(frozen=True, kw_only=True, slots=True)
class OffloadedBytes:
    """Bytes in host memory that live from step to step."""

    weights: int = 0
    """Shares of the weights, or the copy of them through which updated ones reach the device."""
    master_weights: int = 0
    optimizer_states: int = 0
    gradients: int = 0
    buffers: int = 0
    """Gradients of earlier micro-batches, and what a parameter's gradient passes through."""
    step: int = 0
    """Temporary tensors of the update; only for its time."""
    rounding: int = 0
    """What torch gives beyond these for memory that is locked into RAM: a tensor takes the next power of two."""

    @property
    def total(self) -> int:
        """Sum of all."""
        standing = self.weights + self.master_weights + self.optimizer_states + self.gradients
        return standing + self.buffers + self.step


def count_offloaded(plan: RankPlan) -> OffloadedBytes:
    """Bytes of the most loaded rank; nothing where the optimizer is not offloaded."""
    if not plan.offloads_optimizer:
        return OffloadedBytes()
    groups = list_groups(plan)
    return _count_zero3(plan, groups) if plan.zero_stage == 3 else _count_zero12(plan, groups)


def count_device_buffer(plan: RankPlan) -> int:
    """Bytes on the device through which ZeRO 1 and 2 bring gradients to the host: those of the largest parameter."""
    if not plan.offloads_optimizer or plan.zero_stage == 3:
        return 0
    return plan.weight_bytes * _find_largest(list_groups(plan))


def _count_zero12(plan: RankPlan, groups: tuple[FlatGroup, ...]) -> OffloadedBytes:
    partitions = [group.partition for group in groups]
    # ZeRO 1 reduces once a step; under ZeRO 2 parameters at the edges of a share are kept whole.
    by_rank = [sum(touched) for touched in zip(*(group.list_touched() for group in groups), strict=True)]
    earlier = max(by_rank) if plan.accumulation_steps > 1 and plan.zero_stage == 2 else 0
    return OffloadedBytes(
        weights=plan.weight_bytes * sum(partitions),
        master_weights=_FP32 * sum(partitions),
        optimizer_states=count_state_bytes(pair_states(groups, partitions)),
        gradients=_FP32 * sum(partitions),
        buffers=plan.weight_bytes * (_find_largest(groups) + earlier),
        step=count_step_bytes(plan, partitions),
        # Masters and their gradients, the copies of weights, and about half of it for gradients of single parameters.
        rounding=_round_up(_FP32 * size for size in (*partitions, *partitions))
        + _round_up(plan.weight_bytes * size for size in (*partitions, _find_largest(groups)))
        + plan.weight_bytes * earlier // 2,
    )


def _count_zero3(plan: RankPlan, groups: tuple[FlatGroup, ...]) -> OffloadedBytes:
    """The accumulated gradients, and beside them those that the update reads."""
    shares = [sum(-(-size // plan.data_parallel_size) for size in group.sizes) for group in groups]
    return OffloadedBytes(
        weights=plan.weight_bytes * sum(shares) if plan.offloads_weights else 0,
        master_weights=_FP32 * sum(shares),
        optimizer_states=count_state_bytes(pair_states(groups, shares)),
        gradients=(_FP32 + plan.accumulation_bytes) * sum(shares),
        step=count_step_bytes(plan, shares),
        rounding=_round_up([plan.accumulation_bytes * sum(shares)]),
    )


def _round_up(sizes: Iterable[int]) -> int:
    """Bytes beyond ``sizes`` up to their next powers of two."""
    return sum((1 << max(0, size - 1).bit_length()) - size for size in sizes)


def _find_largest(groups: tuple[FlatGroup, ...]) -> int:
    return max(size for group in groups for size in group.sizes)
