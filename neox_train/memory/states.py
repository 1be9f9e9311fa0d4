"""Tensors that live through the whole training: weights, master weights, optimizer states, standing gradients.

Which tensors exist is decided by the optimizer that DeepSpeed 0.19.6 puts around ours, so that choice is repeated
here. Counted to the byte; the tests compare with the tensors of real engines.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from neox_train.config.stages import EMBEDDING, OUTPUT
from neox_train.memory.compression import count_compression
from neox_train.memory.groups import FlatGroup, list_groups
from neox_train.memory.optimizers import StateKind, count_state_bytes
from neox_train.memory.plan import RankPlan

Wrapper = Literal["flat", "none", "unfused", "bf16", "zero12", "zero3"]

_FP32 = 4
FLAT_ALIGNMENT = 128
"""Elements that a share of flat master weights is a multiple of: collectives and copies move whole cache lines."""


@dataclass(frozen=True, kw_only=True, slots=True)
class StaticBytes:
    """Bytes that stay allocated on one rank, from the first step on."""

    weights: int
    master_weights: int
    optimizer_states: int
    gradients: int
    """Accumulation buffers that outlive a step; most wrappers have none."""
    communication: int
    """Buffers that outlive a step."""

    @property
    def total(self) -> int:
        """Sum of all."""
        return self.weights + self.master_weights + self.optimizer_states + self.gradients + self.communication


def choose_wrapper(plan: RankPlan) -> Wrapper:
    """The optimizer that DeepSpeed wraps around a client optimizer.

    ``flat``: none, our optimizer keeps flat masters by itself. ``none``: plain data parallel in fp32. ``unfused``: 16
    bits without ZeRO, an fp32 copy a parameter. ``bf16``: ZeRO 1 with bf16 weights and fp32 accumulation. ``zero12``:
    ZeRO 1 and 2 otherwise. ``zero3``: ZeRO 3.
    """
    if plan.flat_masters:
        return "flat"
    if plan.zero_stage == 0:
        return "none" if plan.precision == "fp32" else "unfused"
    if plan.zero_stage == 1 and plan.precision == "bfloat16" and plan.accumulation_bytes == _FP32:
        return "bf16"
    return "zero3" if plan.zero_stage == 3 else "zero12"


def count_static(plan: RankPlan) -> StaticBytes:
    """Bytes of every tensor that lives from step to step."""
    groups = list_groups(plan)
    wrapper = choose_wrapper(plan)
    if wrapper == "flat":
        return _count_flat(plan, groups)
    if wrapper in ("none", "unfused"):
        return _count_unsharded(plan, groups)
    if wrapper == "zero3":
        return _count_zero3(plan, groups)
    partitions = [group.partition for group in groups]
    padded = sum(group.padded for group in groups)
    return StaticBytes(
        weights=plan.weight_bytes * padded,
        master_weights=_FP32 * sum(partitions),
        optimizer_states=count_state_bytes(_pair(groups, partitions)),
        gradients=plan.accumulation_bytes * padded if wrapper == "bf16" else 0,
        communication=count_neighbour_buffers(plan),
    )


def _count_flat(plan: RankPlan, groups: tuple[FlatGroup, ...]) -> StaticBytes:
    """One buffer a group for weights, gradients and masters; ZeRO 1 shares masters and states out.

    With one micro-batch a step nothing is added up, and the gradients stay in the weights' format.
    """
    shards = plan.data_parallel_size if plan.zero_stage == 1 else 1
    lengths = _list_flat_lengths(plan, groups)
    shares = [length // shards for length in lengths]
    gradient_bytes = plan.weight_bytes if plan.accumulation_steps == 1 else plan.accumulation_bytes
    return StaticBytes(
        weights=plan.weight_bytes * sum(lengths),
        master_weights=_FP32 * sum(shares),
        optimizer_states=count_state_bytes(_pair(groups, shares)),
        gradients=gradient_bytes * sum(lengths),
        communication=0,
    )


def count_weights_at_start(plan: RankPlan) -> int:
    """Bytes of weights at most while flat masters are set up: one group after another goes from fp32 to its buffer."""
    groups = list_groups(plan)
    counts, lengths = [group.count for group in groups], _list_flat_lengths(plan, groups)
    return max(
        _FP32 * sum(counts[index:]) + plan.weight_bytes * sum(lengths[: index + 1]) for index in range(len(groups))
    )


def _list_flat_lengths(plan: RankPlan, groups: tuple[FlatGroup, ...]) -> list[int]:
    multiple = FLAT_ALIGNMENT * (plan.data_parallel_size if plan.zero_stage == 1 else 1)
    return [-(-group.count // multiple) * multiple for group in groups]


def _pair(groups: tuple[FlatGroup, ...], shares: list[int]) -> list[tuple[StateKind, int]]:
    return [(group.states, share) for group, share in zip(groups, shares, strict=True)]


def count_neighbour_buffers(plan: RankPlan) -> int:
    """Standing buffers for hidden states from the stage before and their gradients from the stage after."""
    neighbours = (EMBEDDING not in plan.links) + (OUTPUT not in plan.links)
    return neighbours * plan.weight_bytes * plan.share_tokens * plan.architecture.hidden_size


def _count_unsharded(plan: RankPlan, groups: tuple[FlatGroup, ...]) -> StaticBytes:
    sizes = [size for group in groups for size in group.sizes]
    return StaticBytes(
        weights=plan.weight_bytes * sum(sizes),
        master_weights=0 if plan.precision == "fp32" else _FP32 * sum(sizes),
        optimizer_states=count_state_bytes((group.states, size) for group in groups for size in group.sizes),
        gradients=0,
        communication=count_neighbour_buffers(plan) + count_compression(plan),
    )


def _count_zero3(plan: RankPlan, groups: tuple[FlatGroup, ...]) -> StaticBytes:
    """ZeRO 3 cuts every parameter by itself; small ones stay whole on every rank besides."""
    ranks = plan.data_parallel_size
    sizes = [size for group in groups for size in group.sizes]
    shares = [sum(-(-size // ranks) for size in group.sizes) for group in groups]
    whole = sum(size for size in sizes if size <= plan.persistence_threshold)
    # A GPU gives the whole bucket at once, a CPU only the pages that gradients reach.
    bucket = plan.reduce_bucket_elements if plan.device == "cuda" else min(plan.reduce_bucket_elements, sum(sizes))
    return StaticBytes(
        weights=plan.weight_bytes * (sum(shares) + whole),
        master_weights=_FP32 * sum(shares),
        optimizer_states=count_state_bytes(_pair(groups, shares)),
        gradients=plan.accumulation_bytes * sum(shares),
        communication=plan.communication_bytes * bucket + count_neighbour_buffers(plan),
    )
