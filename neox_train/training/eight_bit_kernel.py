"""The Triton kernel of 8-bit AdamW: gradient in, moments, master and 16-bit weights out, in one pass over memory.

States are bitsandbytes': a code of 8 bits an element, and one fp32 scale (the largest magnitude) a block of 256. Its
"dynamic" books (arXiv 2110.02861) are computed instead of looked up: above zero they count decade by decade, from the
lowest, with twice as many equal steps in each as in the one before, and end with 1. Counted so that the first code of
a decade of ``2**e`` steps is ``2**e``, code ``q`` is ``10**(e - top) * (0.9 * (q + 0.5) / 2**e - 0.8)``.
"""

from __future__ import annotations

import triton
import triton.language as tl

BLOCK_ELEMENTS = 256
ROWS = 4
"""Blocks of a program."""

_LOG2_10 = tl.constexpr(3.321928094887362)
_LOG10_2 = tl.constexpr(0.30102999566398120)


@triton.jit
def _decode(count, top: tl.constexpr, zero: tl.constexpr):  # type: ignore[no-untyped-def]
    """The magnitude of a code counted as above; ``zero`` is the count of 0, ``2**(top + 1)`` that of 1."""
    place = count.to(tl.float32)
    decade = (place.to(tl.int32, bitcast=True) >> 23) - 127
    steps = ((127 - decade) << 23).to(tl.float32, bitcast=True)
    value = tl.exp2((decade - top).to(tl.float32) * _LOG2_10) * (0.9 * (place + 0.5) * steps - 0.8)
    value = tl.where(count > zero, value, 0.0)
    return tl.where(count >= 2 ** (top + 1), 1.0, value)


@triton.jit
def _encode(magnitude, top: tl.constexpr, zero: tl.constexpr):  # type: ignore[no-untyped-def]
    """The count of the nearest code to a magnitude in [0, 1]: that of its own step or of the one beside it."""
    decade = tl.ceil(tl.log2(tl.maximum(magnitude, 1e-30)) * _LOG10_2).to(tl.int32) + top
    decade = tl.minimum(tl.maximum(decade, zero), top)
    steps = ((127 + decade) << 23).to(tl.float32, bitcast=True)
    within = (magnitude * tl.exp2((top - decade).to(tl.float32) * _LOG2_10) - 0.1) * (steps / 0.9)
    own = (tl.minimum(tl.maximum(tl.floor(within), 0.0), steps - 1.0) + steps).to(tl.int32)
    distance = magnitude - _decode(own, top, zero)
    beside = tl.where(distance > 0, own + 1, own - 1)
    is_nearer = tl.abs(magnitude - _decode(beside, top, zero)) < tl.abs(distance)
    return tl.where(is_nearer, beside, own)


@triton.jit
def update_blocks(  # type: ignore[no-untyped-def]
    master_at,
    weights_at,
    gradient_at,
    first_at,
    second_at,
    first_scale_at,
    second_scale_at,
    clipping_at,
    step_size,
    shrink,
    denominator_scale,
    first_rate: tl.constexpr,
    second_rate: tl.constexpr,
    eps: tl.constexpr,
    elements,
    rows: tl.constexpr,
):
    """One AdamW step on ``rows`` blocks; moments are applied before they are rounded, as in bitsandbytes."""
    blocks = tl.program_id(0) * rows + tl.arange(0, rows)
    places = blocks[:, None] * 256 + tl.arange(0, 256)[None, :]
    here = places < elements
    has_block = blocks * 256 < elements
    applied = tl.load(gradient_at + places, mask=here, other=0.0).to(tl.float32) * tl.load(clipping_at)

    code = tl.load(first_at + places, mask=here, other=127).to(tl.int32) - 127
    old_scale = tl.load(first_scale_at + blocks, mask=has_block, other=0.0)
    magnitude = _decode(tl.abs(code), 6, 0) * old_scale[:, None]
    first = first_rate * tl.where(code < 0, -magnitude, magnitude) + (1.0 - first_rate) * applied
    code = tl.load(second_at + places, mask=here, other=0).to(tl.int32)
    old_scale = tl.load(second_scale_at + blocks, mask=has_block, other=0.0)
    second = second_rate * _decode(code + 1, 7, 1) * old_scale[:, None] + (1.0 - second_rate) * applied * applied

    master = tl.load(master_at + places, mask=here, other=0.0)
    master = master * shrink - step_size * first / (tl.sqrt(second) / denominator_scale + eps)
    tl.store(master_at + places, master, mask=here)
    tl.store(weights_at + places, master.to(weights_at.dtype.element_ty), mask=here)

    scale = tl.max(tl.abs(first), axis=1)
    tl.store(first_scale_at + blocks, scale, mask=has_block)
    count = _encode(tl.abs(first) / tl.maximum(scale, 1e-37)[:, None], 6, 0)
    # A moment below zero keeps its sign; the book has no code of -1.
    code = tl.where(first < 0, 127 - tl.minimum(tl.maximum(count, 1), 127), 127 + count)
    tl.store(first_at + places, code.to(tl.uint8), mask=here)
    scale = tl.max(second, axis=1)
    tl.store(second_scale_at + blocks, scale, mask=has_block)
    count = _encode(second / tl.maximum(scale, 1e-37)[:, None], 7, 1)
    tl.store(second_at + places, (count - 1).to(tl.uint8), mask=here)
