"""What a process holds before the first tensor of the model: interpreter, libraries, GPU context."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from neox_train.memory.phases import Phase
from neox_train.memory.plan import RankPlan

_MIB = 1 << 20

CPU_BASE_BYTES = 490 * _MIB
CPU_FRAGMENTATION = 0.12
CUDA_CONTEXT_BYTES = 500 * _MIB
CUDA_WORKSPACE_BYTES = 96 * _MIB
NCCL_BYTES = 512 * _MIB
CUDA_FRAGMENTATION = 0.03


@dataclass(frozen=True, slots=True)
class ProcessBytes:
    """Bytes that no tensor of the training accounts for."""

    base: int
    allocator: int
    """Freed memory the allocator keeps, in proportion to the tensors."""


def count_process(plan: RankPlan, phase: Phase, phases: Sequence[Phase]) -> ProcessBytes:
    """Bytes of the process itself and of its allocator at one of the ``phases`` of a step."""
    if plan.device == "cpu":
        # The backward pass runs in a thread of its own; glibc keeps what it freed in that thread's arena.
        kept = max(other.backward for other in phases) - phase.backward
        moving = phase.parts["activations"] + phase.parts["logits_and_loss"]
        return ProcessBytes(CPU_BASE_BYTES, kept + int(CPU_FRAGMENTATION * moving))
    communicators = NCCL_BYTES if plan.data_parallel_size > 1 else 0
    base = CUDA_CONTEXT_BYTES + CUDA_WORKSPACE_BYTES + communicators
    return ProcessBytes(base, int(CUDA_FRAGMENTATION * phase.total))


def is_calibrated(plan: RankPlan) -> bool:
    """Whether the numbers of this file were measured on such a device."""
    return plan.device == "cpu"
