"""What a process holds beside the tensors of the training: interpreter, libraries, allocator, GPU context."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from neox_train.config.stages import EMBEDDING, OUTPUT
from neox_train.memory.activations import count_backward_temporaries, count_recomputed
from neox_train.memory.groups import list_groups
from neox_train.memory.phases import Phase
from neox_train.memory.plan import RankPlan
from neox_train.memory.states import choose_wrapper

_MIB = 1 << 20

# Source of the CPU numbers: measured, peak resident memory (ru_maxrss) of two gloo ranks of the real trainer on a
# 2-core x86-64 CPU with torch 2.13 and glibc 2.36, over twelve runs of 0.6 to 48 million parameters (micro-batch 1 to
# 16, ZeRO 0 to 2, fp32, with and without recomputation and accumulation, 8 to 150 steps). The estimate is between 3%
# below and 6% above the larger rank's peak in each.
CPU_BASE_BYTES = 470 * _MIB
"""Python, torch, DeepSpeed and the libraries' pages that a training touches, process group joined."""
CPU_HEAP_LIMIT_BYTES = 32 * _MIB
"""glibc serves smaller blocks from its heaps, which keep holes; larger ones go back to the system when freed.

The step is counted as a slope down to nothing at twice the limit, so that a larger run never seems to need less.
"""
CPU_FLAT_HOLES = 5
"""Holes of the size of the largest flat (or, without ZeRO, single) parameter buffer."""
CPU_WIDTH_HOLES = 7
"""Holes of the size of the widest activation."""

# Source of the GPU numbers: on one H200 nvidia-smi counted 1.60 to 1.67 GiB beyond what torch had reserved, in 35
# trainings (context, kernels, a communicator of one rank). Buffers between ranks were not measured.
CUDA_CONTEXT_BYTES = 1700 * _MIB
NCCL_BYTES = 512 * _MIB
"""Buffers of one communicator: ring and tree over 24 channels of NVLink, 10 MiB a connection.

The size of a connection's buffers, and 1.06 GB for one communicator of eight H100 with the process's context, are from
github.com/NVIDIA/nccl/issues/1685; that communicators add up, from issue 864 there. Over PCIe or few adapters there are
fewer channels, so it is an upper figure.
"""
CUDA_FRAGMENTATION = 0.03
"""Share of the tensors that the caching allocator holds beside them."""
CUDA_CACHED_SHARE = 0.07
"""Of what a pass allocates and frees, kept in blocks that fit nothing else: median of 9 measured trainings."""
CUDA_CACHED_RECOMPUTED = 1.6
"""Of a recomputed layer and its temporaries: fitted to one training, 125M with activation checkpointing."""


@dataclass(frozen=True, slots=True)
class ProcessBytes:
    """Bytes that no tensor of the training accounts for."""

    base: int
    allocator: int
    """Freed memory that the allocator keeps."""
    communicators: int = 0
    """NCCL's buffers between ranks."""


def count_process(plan: RankPlan, phase: Phase, phases: Sequence[Phase]) -> ProcessBytes:
    """Bytes of the process itself and of its allocator at one of the ``phases`` of a step."""
    if plan.device == "cpu":
        # The backward pass runs in a thread of its own; glibc keeps what it freed in that thread's heap.
        kept = max(other.backward for other in phases) - phase.backward
        return ProcessBytes(CPU_BASE_BYTES, kept + _count_holes(plan))
    buffers = NCCL_BYTES * count_communicators(plan)
    return ProcessBytes(CUDA_CONTEXT_BYTES, int(CUDA_FRAGMENTATION * phase.total), buffers)


def count_communicators(plan: RankPlan) -> int:
    """Communicators of more than one rank that a rank of the plan takes part in.

    All ranks; the replicas, which DeepSpeed gives a communicator of their own even where they are all ranks; the
    tensor-parallel ranks; in a pipeline the stages together, and one with each neighbouring stage.
    """
    neighbours = (EMBEDDING not in plan.links) + (OUTPUT not in plan.links)
    cuts = (plan.data_parallel_size > 1) + (plan.tensor_parallel_size > 1) + (neighbours > 0)
    return cuts + neighbours + (cuts > 0)


def count_cached(plan: RankPlan, phases: Sequence[Phase]) -> int:
    """Bytes that torch's allocator keeps beside the tensors of a GPU's peak as long as the card has room.

    Blocks of one moment do not fit another: the step's buffers not the passes, recomputed layers not the logits. Where
    the card is full they are given back, so the gate does not count them.
    """
    if plan.device == "cpu":
        return 0
    totals = {phase.name: phase.total for phase in phases}
    standing = totals["weight gathering"]
    stepped = totals["optimizer step"] - standing
    passes = max(total for name, total in totals.items() if name != "start") - standing
    recomputed = 0
    if plan.checkpoint_layers:
        recomputed = count_recomputed(plan) + count_backward_temporaries(plan)
    return int(stepped + CUDA_CACHED_SHARE * passes + CUDA_CACHED_RECOMPUTED * recomputed)


def is_calibrated(plan: RankPlan) -> bool:
    """Whether the numbers of this file were measured on such a device."""
    return plan.device == "cpu"


def _count_holes(plan: RankPlan) -> int:
    groups = list_groups(plan)
    if choose_wrapper(plan) in ("none", "unfused"):
        flat = 4 * max(size for group in groups for size in group.sizes)
    else:
        flat = plan.weight_bytes * max(group.padded for group in groups)
    width = plan.weight_bytes * plan.tokens * plan.architecture.ffn_width
    holes = ((CPU_FLAT_HOLES, flat), (CPU_WIDTH_HOLES, width))
    return sum(count * max(0, min(size, 2 * CPU_HEAP_LIMIT_BYTES - size)) for count, size in holes)
