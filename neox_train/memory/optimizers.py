"""Bytes of optimizer states, and what a step needs for a moment."""

from __future__ import annotations

from collections.abc import Iterable

from neox_train.memory.plan import OptimizerKind, RankPlan

_FP32 = 4
_STEP_SCALAR = 4
"""torch keeps the step count of AdamW as one fp32 scalar a tensor."""
_BLOCK = 256
"""bitsandbytes scales blocks of this many elements."""
_MIN_8BIT = 4096
"""bitsandbytes keeps smaller tensors in fp32."""
_QUANTISATION_MAPS = 2 * 256 * _FP32
"""bitsandbytes' two code books, one pair an optimizer."""


def count_state_bytes(kind: OptimizerKind, tensors: Iterable[int]) -> int:
    """Bytes of the states over fp32 tensors of the given element counts."""
    sizes = list(tensors)
    if kind == "adam":
        return sum(2 * _FP32 * size + _STEP_SCALAR for size in sizes)
    if kind == "adam_8bit":
        maps = _QUANTISATION_MAPS if any(size >= _MIN_8BIT for size in sizes) else 0
        return maps + sum(_count_8bit(size) for size in sizes)
    if kind in ("lion", "sgd_momentum"):
        return sum(_FP32 * size for size in sizes)
    return 0


def count_step_bytes(plan: RankPlan, tensors: Iterable[int]) -> int:
    """Bytes of temporary tensors of an update, which goes tensor by tensor: those of the largest.

    AdamW on a CPU holds the square root of the second moment and its quotient; on a GPU it is one fused kernel.
    """
    largest = max(tensors, default=0)
    if plan.optimizer == "adam":
        return 0 if plan.device == "cuda" else 2 * _FP32 * largest
    if plan.optimizer == "adam_8bit":
        return 0
    return _FP32 * largest


def _count_8bit(size: int) -> int:
    if size < _MIN_8BIT:
        return 2 * _FP32 * size
    blocks = -(-size // _BLOCK)
    return 2 * size + 2 * _FP32 * blocks
