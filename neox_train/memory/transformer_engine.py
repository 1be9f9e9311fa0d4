"""What layers by Transformer Engine keep that plain ones do not, in 16 bits and in FP8.

Read off the modules of Transformer Engine 2.20.2: which tensors each saves for its backward pass, and in which of the
two orders of an FP8 tensor (by rows for the forward product, by columns for the weights' gradient, both one byte an
element on GPUs whose FP8 products take one order only). In 16 bits the modules save what plain layers save.
"""

from __future__ import annotations

from neox_train.memory.plan import RankPlan

_BLOCK_SCALES = {"delayed": 0.0, "current": 0.0, "blockwise": 4 / 128, "mxfp8": 1 / 32}
"""Bytes of scales an element: none where a tensor has one, else one a row of 128 (fp32) or of 32 (a byte)."""
_BOTH = 2


def count_te_savings(plan: RankPlan) -> int:
    """Bytes that one plain layer saves and the plan's layer does not; below 0 where it saves more."""
    a, cut = plan.architecture, plan.tensor_parallel_size
    hidden, width = plan.tokens * a.hidden_size, plan.tokens * a.ffn_width // cut
    # Under sequence parallelism a fused norm keeps its share and gathers it again; a plain product keeps the whole.
    share = plan.share_tokens * a.hidden_size
    fused = plan.te_attention + plan.te_mlp
    saved = fused * plan.weight_bytes * (hidden - share)
    if plan.te_mlp and a.is_gated:
        # One fused kernel multiplies gate and up projection: the activated gate is not kept.
        saved += plan.weight_bytes * width
    if plan.fp8 is None:
        return saved
    one = 1 + _BLOCK_SCALES[plan.fp8]
    narrowed = 0.0
    if plan.te_attention or plan.te_columns:
        narrowed += (plan.weight_bytes - one) * (share if plan.te_attention else hidden)
    if plan.te_attention or plan.te_rows:
        # The attention's output stays in 16 bits for its own backward pass.
        narrowed -= one * hidden // cut
    if plan.te_mlp:
        # The fused module keeps its normed input in both orders, and that of its second product by rows, unless the
        # scaling cannot turn one order into the other.
        orders = 1 if plan.fp8 in ("delayed", "current") else _BOTH
        narrowed += (plan.weight_bytes - _BOTH * one) * share + (plan.weight_bytes - orders * one) * width
    else:
        narrowed += plan.te_columns * (plan.weight_bytes - one) * hidden
        narrowed += plan.te_rows * (plan.weight_bytes - one) * width
    return saved + int(narrowed)


def count_fp8_weights(plan: RankPlan, layers: int) -> int:
    """Bytes of the FP8 copies of ``layers`` layers' weights: made by each forward pass, kept for the backward pass."""
    if plan.fp8 is None:
        return 0
    a = plan.architecture
    entering = a.qkv_rows * a.hidden_size * (plan.te_attention or plan.te_columns)
    entering += (2 if a.is_gated else 1) * a.ffn_width * a.hidden_size * (plan.te_mlp or plan.te_columns)
    leaving = a.hidden_size**2 * (plan.te_attention or plan.te_rows)
    leaving += a.ffn_width * a.hidden_size * (plan.te_mlp or plan.te_rows)
    return _BOTH * layers * (entering + leaving) // plan.tensor_parallel_size
