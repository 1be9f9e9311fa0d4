"""What a process holds before the first tensor of the model: interpreter, libraries, GPU context."""

from __future__ import annotations

from dataclasses import dataclass

from neox_train.memory.plan import RankPlan

GIB = 1 << 30
MIB = 1 << 20

CPU_BASE_BYTES = 600 * MIB
CPU_ALLOCATOR_FRACTION = 0.02
CUDA_CONTEXT_BYTES = 500 * MIB
CUDA_WORKSPACE_BYTES = 96 * MIB
NCCL_BYTES = 512 * MIB
CUDA_ALLOCATOR_FRACTION = 0.03


@dataclass(frozen=True, slots=True)
class ProcessBytes:
    """Bytes that no tensor of the training accounts for."""

    base: int
    allocator: int
    """Freed memory the allocator keeps, in proportion to the tensors."""


def count_process(plan: RankPlan, tensor_bytes: int) -> ProcessBytes:
    """Bytes of the process itself and of its allocator for a peak of ``tensor_bytes``."""
    if plan.device == "cpu":
        return ProcessBytes(CPU_BASE_BYTES, int(CPU_ALLOCATOR_FRACTION * tensor_bytes))
    communicators = NCCL_BYTES if plan.data_parallel_size > 1 else 0
    base = CUDA_CONTEXT_BYTES + CUDA_WORKSPACE_BYTES + communicators
    return ProcessBytes(base, int(CUDA_ALLOCATOR_FRACTION * tensor_bytes))


def is_calibrated(plan: RankPlan) -> bool:
    """Whether the numbers of this file were measured on such a device."""
    return plan.device == "cpu"
