"""Activations that the backward pass needs, tensor by tensor, as autograd saves them for this model.

Counted for the fused attention kernel, which keeps no scores. Where the CPU has no fused kernel (attention dropout)
or saves more (RMSNorm, dropout masks) it is counted apart; the tests compare with what autograd really saves.
"""

from __future__ import annotations

from neox_train.memory.plan import RankPlan

_FP32 = 4
_INT64 = 8

_MLP_WIDTHS = {"relu": 1, "bilinear": 3, "geglu": 4, "swiglu": 4, "reglu": 4, "glu": 4}
"""Saved tensors of the MLP's width, 2 unless named: activation in and out; gated: gate, up, activated, product."""


def count_activations(plan: RankPlan) -> int:
    """Bytes saved by one forward pass of a micro-batch, without logits and loss."""
    layers = plan.architecture.num_layers
    if plan.checkpoint_layers == 0:
        return layers * count_layer(plan) + count_ends(plan)
    chunks = -(-layers // plan.checkpoint_layers)
    return chunks * _count_hidden(plan) + count_ends(plan)


def count_recomputed(plan: RankPlan) -> int:
    """Bytes that the backward pass saves again while it works on one chunk of recomputed layers."""
    return min(plan.checkpoint_layers, plan.architecture.num_layers) * count_layer(plan)


def count_ends(plan: RankPlan) -> int:
    """Bytes saved outside the layers: tokens, rotary tables, embedding dropout, final norm and its output."""
    a = plan.architecture
    tokens = _INT64 * plan.micro_batch * (a.seq_length + 1)
    tables = 2 * _FP32 * a.seq_length * (a.rotary_dim // 2)
    return tokens + tables + _count_mask(plan) + _count_norm(plan) + 2 * _count_hidden(plan)


def count_layer(plan: RankPlan) -> int:
    """Bytes saved by one layer."""
    a = plan.architecture
    hidden = _count_hidden(plan)
    parallel = a.residual != "serial"
    norms = 1 if a.residual == "parallel_tied" else 2
    residuals = 1 if parallel else 2
    width = plan.weight_bytes * plan.tokens * a.ffn_width * _MLP_WIDTHS.get(a.activation, 2)
    return (
        residuals * hidden
        + norms * (hidden + _count_norm(plan))
        + _count_attention(plan)
        + hidden  # the attention's output, input of its projection
        + width
        + 2 * _count_mask(plan)
    )


def count_backward_temporaries(plan: RankPlan) -> int:
    """Bytes of gradients of activations alive inside one layer's backward pass, at its widest: the MLP."""
    a = plan.architecture
    width = (2 if a.is_gated else 1) * a.ffn_width + a.ffn_width
    return plan.weight_bytes * plan.tokens * (2 * a.hidden_size + width)


def _count_hidden(plan: RankPlan) -> int:
    return plan.weight_bytes * plan.tokens * plan.architecture.hidden_size


def _count_attention(plan: RankPlan) -> int:
    a = plan.architecture
    queries, keys = a.num_attention_heads * a.head_dim, a.num_kv_heads * a.head_dim
    if a.attention_dropout and plan.device == "cpu":
        scores = plan.micro_batch * a.num_attention_heads * a.seq_length**2
        # Scores, dropout mask and dropped scores, and queries, keys and values, all in fp32.
        return _FP32 * (3 * scores + plan.tokens * 3 * queries)
    copies = 0
    if a.rotary_dim:
        copies = queries + keys
    elif a.num_kv_heads < a.num_attention_heads:
        copies = queries
    sums = _FP32 * plan.tokens * a.num_attention_heads
    return plan.weight_bytes * plan.tokens * (a.qkv_rows + copies) + sums


def _count_norm(plan: RankPlan) -> int:
    """Bytes a norm saves besides its input and output."""
    a = plan.architecture
    if "rms" not in a.norm:
        return 2 * plan.tokens * (plan.weight_bytes if plan.device == "cpu" else _FP32)
    statistics = _FP32 * plan.tokens
    if plan.device == "cuda":
        return statistics
    # On a CPU it is a chain of operations: an fp32 copy of the input (its own in fp32) and the scaled input.
    copies = 1 if plan.precision == "fp32" else 2
    return statistics + copies * _FP32 * plan.tokens * a.hidden_size


def _count_mask(plan: RankPlan) -> int:
    """Bytes of one mask of hidden dropout: the tensor's own format on a CPU, a byte an element on a GPU."""
    if not plan.architecture.hidden_dropout:
        return 0
    return _count_hidden(plan) // (1 if plan.device == "cpu" else plan.weight_bytes)
