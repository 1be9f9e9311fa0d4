"""Gradients and reduction buffers through one optimizer step, as DeepSpeed 0.19.6 moves them.

In every wrapper but ZeRO 2 and 3 a rank first holds whole gradients and only then reduces them; the memory the
textbook formula takes off for ZeRO 1 comes back in the reduction buffers.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from neox_train.memory.compression import count_compressed_reduction, count_exchange, count_synchronisation
from neox_train.memory.groups import FlatGroup, count_share_bytes, list_groups
from neox_train.memory.offload import count_offloaded
from neox_train.memory.optimizers import count_cut_muon_bytes, count_muon_bytes, count_step_bytes
from neox_train.memory.plan import RankPlan
from neox_train.memory.states import choose_wrapper

_FP32 = 4
_ENGINE_BUCKET_ELEMENTS = 500_000_000
"""Elements that the engine reduces at once where ZeRO does not do it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class GradientBytes:
    """Bytes at the moments of a step that can be its peak; standing buffers (StaticBytes) are not repeated."""

    carried: int
    """Held while a later micro-batch runs forward (0 without gradient accumulation)."""
    carried_buffers: int
    produced: int
    """Held at the end of the last backward pass, before reduction."""
    produced_buffers: int
    reduced: int
    """Held while the last bucket is reduced."""
    reduced_buffers: int
    stepped: int
    """Held during the optimizer step."""
    step_temporaries: int


def count_gradients(plan: RankPlan) -> GradientBytes:
    """Bytes of gradients, reduction buffers and step temporaries of the most loaded rank."""
    count = {"none": _count_plain, "unfused": _count_plain, "bf16": _count_bf16, "zero12": _count_zero12}
    wrapper = choose_wrapper(plan)
    if plan.offloads_optimizer:
        return _count_offloading(plan)
    if wrapper == "flat":
        return _count_flat(plan)
    return _count_zero3(plan) if wrapper == "zero3" else count[wrapper](plan)


def count_bucket_bytes(plan: RankPlan) -> int:
    """Bytes of ZeRO's reduction buckets.

    A GPU allocates them whole. On a CPU only the part that is written becomes resident: no more than the model.
    """
    bucket = plan.reduce_bucket_elements
    if plan.device == "cpu":
        bucket = min(bucket, _count_parameters(plan))
    return plan.weight_bytes * bucket * (2 if plan.overlap_comm else 1)


def _count_plain(plan: RankPlan) -> GradientBytes:
    """Without ZeRO: a gradient a parameter, reduced through a flat copy, stepped in fp32."""
    groups = list_groups(plan)
    sizes = [size for group in groups for size in group.sizes]
    orthogonalised = count_muon_bytes(size for group in groups if group.states == "muon" for size in group.sizes)
    width = plan.weight_bytes if plan.accumulation_steps == 1 else plan.accumulation_bytes
    own = width * sum(sizes)
    widened = 0 if width == _FP32 else _FP32 * sum(sizes)
    return GradientBytes(
        carried=own if plan.accumulation_steps > 1 else 0,
        carried_buffers=0,
        produced=own,
        produced_buffers=0,
        reduced=own,
        reduced_buffers=_count_plain_buffers(plan, sum(sizes), width),
        stepped=own,
        step_temporaries=max(
            widened + max(orthogonalised, count_step_bytes(plan, sizes), count_exchange(plan)),
            count_synchronisation(plan) - own,
        ),
    )


def _count_plain_buffers(plan: RankPlan, elements: int, width: int) -> int:
    """A bucket of gradients of ``width`` bytes as one flat copy, and one in the wire's format where that differs."""
    if plan.compression in ("powersgd", "local_update"):
        return count_compressed_reduction(plan)
    wire = 0 if plan.communication_bytes == width else plan.communication_bytes
    return (width + wire) * min(elements, _ENGINE_BUCKET_ELEMENTS)


def _count_flat(plan: RankPlan) -> GradientBytes:
    """A parameter's gradient goes into the standing buffer at once; ranks exchange the buffer, in the wire's format."""
    groups = list_groups(plan)
    sizes = [size for group in groups for size in group.sizes]
    own = plan.weight_bytes * max(sizes)
    wire = plan.communication_bytes * sum(sizes) if plan.data_parallel_size > 1 else 0
    widened = _FP32 * max(group.partition for group in groups) if plan.optimizer == "adam_8bit" else 0
    return GradientBytes(
        carried=0,
        carried_buffers=0,
        produced=own,
        produced_buffers=0,
        reduced=0,
        reduced_buffers=wire,
        stepped=0,
        step_temporaries=widened,
    )


def _count_bf16(plan: RankPlan) -> GradientBytes:
    """bf16 gradients added into a standing fp32 buffer, which is reduced through a flat copy in the wire's format."""
    groups = list_groups(plan)
    own = plan.weight_bytes * sum(group.count for group in groups)
    padded = sum(group.padded for group in groups)
    joined = plan.accumulation_bytes * padded if len(groups) > 1 else 0
    wire = plan.communication_bytes * padded if plan.communication_bytes != plan.accumulation_bytes else 0
    return GradientBytes(
        carried=own if plan.accumulation_steps > 1 else 0,
        carried_buffers=0,
        produced=own,
        produced_buffers=0,
        reduced=own,
        reduced_buffers=joined + wire,
        stepped=own,
        step_temporaries=max(count_step_bytes(plan, [group.partition for group in groups]), _count_cut_muon(groups)),
    )


def _count_zero12(plan: RankPlan) -> GradientBytes:
    """Gradients move through a bucket; those of the rank's share into one buffer, then into a flat fp32 copy."""
    groups = list_groups(plan)
    sizes = [size for group in groups for size in group.sizes]
    partitions = [group.partition for group in groups]
    share = count_share_bytes(groups, plan.weight_bytes, plan.accumulation_bytes)
    bucket = count_bucket_bytes(plan)
    copy = plan.weight_bytes * min(plan.reduce_bucket_elements, sum(sizes))
    several = plan.accumulation_steps > 1
    summed = 0
    if several and plan.zero_stage == 2 and plan.accumulation_bytes > plan.weight_bytes:
        # The sums stand beside a micro-batch's averages.
        summed = count_share_bytes(groups, plan.accumulation_bytes, plan.accumulation_bytes)
    # Overlapped communication reduces each bucket as it fills, in ZeRO 1 too where there is nothing to accumulate.
    if plan.zero_stage == 2 or (plan.overlap_comm and not several):
        carried = (summed or share) if several else 0
        produced, produced_buffers = carried + share, bucket + copy
        carried_buffers = 0
    else:
        # fp16 weights accumulate in an attribute of the wider format instead of in `.grad`.
        produced = max(plan.weight_bytes, plan.accumulation_bytes) * sum(sizes)
        produced_buffers = bucket if plan.device == "cuda" else 0
        carried = produced if several else 0
        carried_buffers = produced_buffers if several else 0
    widened = _FP32 * max(partitions)
    narrow = plan.weight_bytes * max(partitions) if plan.weight_bytes != _FP32 else 0
    return GradientBytes(
        carried=carried,
        carried_buffers=carried_buffers,
        produced=produced,
        produced_buffers=produced_buffers,
        reduced=summed + share,
        reduced_buffers=bucket + copy,
        stepped=summed or share,
        step_temporaries=widened + max(narrow, count_step_bytes(plan, partitions), _count_cut_muon(groups)),
    )


def _count_offloading(plan: RankPlan) -> GradientBytes:
    """Gradients leave for the host as they are reduced: ZeRO 1 first holds all of them, 2 and 3 a parameter's."""
    groups = list_groups(plan)
    sizes = [size for group in groups for size in group.sizes]
    own = plan.weight_bytes * max(sizes)
    if plan.zero_stage == 3:
        buffers = count_secondary_partitions(plan)
    else:
        buffers = count_bucket_bytes(plan) + plan.weight_bytes * min(plan.reduce_bucket_elements, sum(sizes))
    held = plan.weight_bytes * sum(sizes) if plan.zero_stage == 1 else 0
    step = count_offloaded(plan).step if plan.device == "cpu" else 0
    return GradientBytes(
        carried=held if plan.accumulation_steps > 1 else 0,
        carried_buffers=0,
        produced=max(held, own),
        produced_buffers=buffers,
        reduced=max(held, own),
        reduced_buffers=buffers,
        stepped=0,
        step_temporaries=step,
    )


def _count_zero3(plan: RankPlan) -> GradientBytes:
    """Gradients pass through a standing bucket into a standing flat buffer; a step widens one group at a time."""
    groups = list_groups(plan)
    shares = [sum(-(-size // plan.data_parallel_size) for size in group.sizes) for group in groups]
    largest = max(size for group in groups for size in group.sizes)
    own = plan.weight_bytes * largest
    secondary = count_secondary_partitions(plan)
    return GradientBytes(
        carried=0,
        carried_buffers=0,
        produced=own,
        produced_buffers=secondary,
        reduced=own,
        reduced_buffers=secondary,
        stepped=0,
        step_temporaries=_FP32 * max(shares) + max(count_step_bytes(plan, shares), _count_cut_muon(groups)),
    )


def count_secondary_partitions(plan: RankPlan) -> int:
    """Bytes of hpZ's second partition: made in the forward pass, dropped by the step."""
    if plan.secondary_ranks == 1:
        return 0
    ranks = plan.data_parallel_size
    cut = (size for group in list_groups(plan) for size in group.sizes if size > plan.persistence_threshold)
    return plan.weight_bytes * sum(-(-size // ranks) * ranks // plan.secondary_ranks for size in cut)


def _count_cut_muon(groups: Iterable[FlatGroup]) -> int:
    return max(
        (count_cut_muon_bytes(group.partition, group.sizes) for group in groups if group.states == "muon"), default=0
    )


def _count_parameters(plan: RankPlan) -> int:
    return sum(group.count for group in list_groups(plan))
