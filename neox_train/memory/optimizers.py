"""Bytes of optimizer states, and what a step needs for a moment."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from neox_train.memory.plan import OptimizerKind, RankPlan

_FP32 = 4
_BF16 = 2
_STEP_SCALAR = 4
"""torch keeps the step count of AdamW as one fp32 scalar a tensor."""
MUON_EXCHANGE_ELEMENTS = 2**26
"""Elements of the cut matrices that ranks put together at once for Muon, unless one matrix alone is larger."""
_BLOCK = 256
"""bitsandbytes scales blocks of this many elements."""
_MIN_8BIT = 4096
"""bitsandbytes keeps smaller tensors in fp32."""
_MAPS = {"adam_8bit": 2 * 256 * _FP32, "lion_8bit": 256 * _FP32}
"""bitsandbytes' code books, one for each state, shared by an optimizer's tensors."""


StateKind = Literal["adam", "adam_8bit", "adam_32bit", "lion", "lion_8bit", "sgd", "muon"]
"""States of one group: torch's AdamW's two moments and step count, 8- or 32-bit moments alone, one momentum, none."""


def choose_states(optimizer: OptimizerKind, *, is_embedding: bool, is_hidden_matrix: bool) -> StateKind:
    """States of a group: beside 8-bit ones embeddings keep 32 bits, and Muon leaves the rest to AdamW."""
    if optimizer == "cpu_adam" or optimizer == "one_bit":
        return "adam_32bit"
    if optimizer == "muon":
        return "muon" if is_hidden_matrix else "adam"
    if optimizer == "adam_8bit":
        return "adam_32bit" if is_embedding else "adam_8bit"
    if optimizer == "lion_8bit":
        return "lion" if is_embedding else "lion_8bit"
    return "lion" if optimizer == "sgd_momentum" else optimizer


def count_state_bytes(tensors: Iterable[tuple[StateKind, int]]) -> int:
    """Bytes of the states over fp32 tensors of the given kinds and element counts, all of one optimizer."""
    listed = list(tensors)
    maps = max((_MAPS.get(kind, 0) for kind, size in listed if size >= _MIN_8BIT), default=0)
    return maps + sum(_count_states(kind, size) for kind, size in listed)


def _count_states(kind: StateKind, size: int) -> int:
    if kind == "adam":
        return 2 * _FP32 * size + _STEP_SCALAR
    if kind == "adam_32bit":
        return 2 * _FP32 * size
    if kind == "adam_8bit":
        return 2 * _count_8bit(size)
    if kind == "lion_8bit":
        return _count_8bit(size)
    return 0 if kind == "sgd" else _FP32 * size


def count_step_bytes(plan: RankPlan, tensors: Iterable[int]) -> int:
    """Bytes of temporary tensors of an update, which goes tensor by tensor: those of the largest.

    AdamW on a CPU holds the square root of the second moment and its quotient; on a GPU, and offloaded, it is one fused
    kernel.
    """
    largest = max(tensors, default=0)
    if plan.optimizer in ("adam", "muon"):
        is_fused = plan.device == "cuda" or plan.offloads_optimizer
        return 0 if is_fused else 2 * _FP32 * largest
    if plan.optimizer in ("adam_8bit", "lion_8bit", "cpu_adam", "one_bit"):
        return 0
    return _FP32 * largest


def count_muon_bytes(matrices: Iterable[int]) -> int:
    """Bytes of temporary tensors of Muon's update of the largest matrix, at most.

    The fp32 mix of gradient and momentum, two bf16 matrices of its shape, and two bf16 products of its shorter side.
    """
    return (_FP32 + 2 * _BF16 + 2 * _BF16) * max(matrices, default=0)


def count_cut_muon_bytes(partition: int, matrices: Iterable[int]) -> int:
    """Bytes of temporary tensors of Muon's update of ``partition`` elements of a flat group, at most.

    The mix of gradient and momentum of all, the bf16 matrices that ranks exchange at once, and for the largest matrix,
    beside what its update needs anyway, fp32 copies of its weights, its input and its momentum.
    """
    sizes = list(matrices)
    if not sizes:
        return 0
    exchanged = min(sum(sizes), max(MUON_EXCHANGE_ELEMENTS, *sizes))
    return _FP32 * partition + _BF16 * exchanged + 3 * _FP32 * max(sizes) + count_muon_bytes(sizes)


def _count_8bit(size: int) -> int:
    """Bytes of one state of bitsandbytes: a byte an element and an fp32 scale a block."""
    return _FP32 * size if size < _MIN_8BIT else size + _FP32 * -(-size // _BLOCK)
