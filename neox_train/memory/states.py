"""Tensors that live through the whole training: weights, master weights, optimizer states, standing gradients.

Which tensors exist is decided by the optimizer that DeepSpeed 0.19.6 puts around ours, so that choice is repeated
here. Counted to the byte; the tests compare with the tensors of real engines.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from neox_train.config.stages import EMBEDDING, OUTPUT
from neox_train.memory.compression import count_compression
from neox_train.memory.groups import FlatGroup, list_groups, pair_states
from neox_train.memory.offload import OffloadedBytes, count_device_buffer, count_offloaded
from neox_train.memory.optimizers import count_state_bytes
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
    in_fp32 = plan.precision == "bfloat16" and plan.accumulation_bytes == _FP32
    if plan.zero_stage == 1 and in_fp32 and not plan.offloads_optimizer:
        return "bf16"
    return "zero3" if plan.zero_stage == 3 else "zero12"


def count_static(plan: RankPlan) -> StaticBytes:
    """Bytes of every tensor that lives from step to step on the device; on a CPU that is all memory."""
    groups = list_groups(plan)
    if plan.offloads_optimizer:
        return _count_offloading(plan, groups)
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
        optimizer_states=count_state_bytes(pair_states(groups, partitions)),
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
        optimizer_states=count_state_bytes(pair_states(groups, shares)),
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
    shares = _list_shares(plan, groups)
    return StaticBytes(
        weights=plan.weight_bytes * (sum(shares) + _count_whole(plan, groups)),
        master_weights=_FP32 * sum(shares),
        optimizer_states=count_state_bytes(pair_states(groups, shares)),
        gradients=plan.accumulation_bytes * sum(shares),
        communication=_count_standing_bucket(plan, groups) + count_neighbour_buffers(plan),
    )


def _count_offloading(plan: RankPlan, groups: tuple[FlatGroup, ...]) -> StaticBytes:
    """Weights and buffers on the device; what the host keeps counts where the device is the CPU."""
    if plan.zero_stage == 3:
        shares = 0 if plan.offloads_weights else sum(_list_shares(plan, groups))
        weights = plan.weight_bytes * (shares + _count_whole(plan, groups))
        communication = _count_standing_bucket(plan, groups)
    else:
        weights = plan.weight_bytes * sum(group.padded for group in groups)
        communication = count_device_buffer(plan)
    there = count_offloaded(plan) if plan.device == "cpu" else OffloadedBytes()
    shared = there.weights if plan.offloads_weights else 0
    return StaticBytes(
        weights=weights + shared,
        master_weights=there.master_weights,
        optimizer_states=there.optimizer_states,
        gradients=there.gradients,
        communication=communication + there.weights - shared + there.buffers,
    )


def _list_shares(plan: RankPlan, groups: tuple[FlatGroup, ...]) -> list[int]:
    return [sum(-(-size // plan.data_parallel_size) for size in group.sizes) for group in groups]


def _count_whole(plan: RankPlan, groups: tuple[FlatGroup, ...]) -> int:
    """Elements of the parameters that ZeRO 3 keeps whole."""
    return sum(size for group in groups for size in group.sizes if size <= plan.persistence_threshold)


def _count_standing_bucket(plan: RankPlan, groups: tuple[FlatGroup, ...]) -> int:
    """Bytes of ZeRO 3's reduction bucket: a GPU gives it whole, a CPU only the pages that gradients reach."""
    bucket = plan.reduce_bucket_elements
    if plan.device == "cpu":
        bucket = min(bucket, sum(group.count for group in groups))
    return plan.communication_bytes * bucket
