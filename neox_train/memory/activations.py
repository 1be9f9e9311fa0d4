"""Activations that the backward pass needs, tensor by tensor, as autograd saves them for this model.

Counted for the fused attention kernel, which keeps no scores. Where the CPU has no fused kernel (attention dropout)
or saves more (RMSNorm, dropout masks) it is counted apart; the tests compare with what autograd really saves.
"""

from __future__ import annotations

from dataclasses import replace

from neox_train.config.stages import EMBEDDING, FINAL_NORM
from neox_train.memory.plan import RankPlan
from neox_train.memory.transformer_engine import count_te_savings

_FP32 = 4
_INT64 = 8

_MLP_WIDTHS = {"relu": 1, "bilinear": 3, "geglu": 4, "swiglu": 4, "reglu": 4, "glu": 4}
"""Saved tensors of the MLP's width, 2 unless named: activation in and out; gated: gate, up, activated, product."""


def count_activations(plan: RankPlan) -> int:
    """Bytes saved by one forward pass of a micro-batch, without logits and loss."""
    layers = plan.architecture.num_layers
    saved = count_embedding(plan) + (count_final_norm(plan) if FINAL_NORM in plan.links else 0)
    if plan.checkpoint_layers == 0:
        edges = 2 * plan.edge_layers
        return saved + (layers - edges) * count_layer(plan) + edges * _count_edge_layer(plan)
    chunks = -(-layers // plan.checkpoint_layers)
    return saved + chunks * _count_kept_input(plan) + layers * _count_products(plan)


def count_embedding(plan: RankPlan) -> int:
    """Bytes saved before the first layer: tokens, positions, rotary tables, dropout."""
    a = plan.architecture
    tokens = _INT64 * plan.micro_batch * (a.seq_length + 1)
    if plan.tensor_parallel_size > 1:
        # Looked up are rows of this rank's shard, with a mask of the tokens that other ranks hold.
        tokens = (_INT64 + 1) * plan.tokens
    positions = _INT64 * a.seq_length if a.pos_emb == "learned" else 0
    tables = 2 * _FP32 * a.seq_length * (a.rotary_dim // 2)
    if EMBEDDING not in plan.links:
        # What the stage before sent stands in its place.
        return _count_share(plan) + tables + count_attention_masks(plan)
    return tokens + positions + tables + count_attention_masks(plan) + _count_mask(plan)


def count_attention_masks(plan: RankPlan) -> int:
    """Bytes of what windows and ALiBi add to the scores: one mask for all layers of a kind."""
    a = plan.architecture
    kinds = sum(a.needs_mask(kind) or plan.cuts_documents for kind in set(a.attention_layers))
    heads = a.num_attention_heads // plan.tensor_parallel_size if a.pos_emb == "alibi" else 1
    # Those that end at documents are made from kept ones that do not.
    copies = plan.micro_batch + 1 if plan.cuts_documents else 1
    return copies * kinds * heads * a.seq_length**2 * plan.weight_bytes


def count_final_norm(plan: RankPlan) -> int:
    """Bytes saved after the last layer: the final norm's input and its output, which the output matrix reads."""
    return _count_residual(plan) + _count_norm(plan) + count_hidden(plan)


def count_layer(plan: RankPlan) -> int:
    """Bytes saved by one layer."""
    a = plan.architecture
    hidden = count_hidden(plan)
    cut = plan.tensor_parallel_size
    norms = 1 if a.residual == "parallel_tied" else 2
    residuals = 2 if a.residual == "serial" else 1
    width = plan.weight_bytes * plan.tokens * a.ffn_width * _count_widths(plan)
    # Sequence parallelism gathers the input of attention and MLP apart, also where one norm feeds both.
    inputs = 2 if plan.sequence_parallel else norms
    return (
        residuals * _count_residual(plan)
        + (0 if plan.compiled_blocks else inputs * hidden)
        + norms * _count_norm(plan)
        + _count_attention(plan) // cut
        + hidden // cut  # the attention's output, input of its projection
        + width // cut
        + 2 * _count_mask(plan)
        - count_te_savings(plan)
    )


def _count_edge_layer(plan: RankPlan) -> int:
    """Bytes saved by the first and the last layer, which may be in 16 bits among others in FP8."""
    return count_layer(replace(plan, fp8=None) if plan.edge_layers else plan)


def _count_widths(plan: RankPlan) -> int:
    """Saved tensors of the MLP's width: a compiled layer keeps the projections and computes the rest again."""
    if plan.compiled_blocks:
        return 2 if plan.architecture.is_gated else 1
    return _MLP_WIDTHS.get(plan.architecture.activation, 2)


def count_waiting(plan: RankPlan) -> int:
    """Bytes that a pipeline stage keeps for micro-batches whose backward pass comes later: saved, sent and received."""
    return (plan.in_flight - 1) * (count_activations(plan) + _count_share(plan))


def _count_kept_input(plan: RankPlan) -> int:
    """Bytes on the device of the input of one chunk of recomputed layers."""
    return 0 if plan.keeps_inputs_on_host else _count_share(plan) // plan.kept_input_shares


def _count_products(plan: RankPlan) -> int:
    """Bytes of a recomputed layer's matrix products and attention, where they are kept."""
    if not plan.keeps_products:
        return 0
    a = plan.architecture
    cut = a.qkv_rows + a.hidden_size + (2 if a.is_gated else 1) * a.ffn_width
    # A tensor-parallel rank's partial sums, those of the projection out of the heads and of the MLP, are whole.
    columns = cut // plan.tensor_parallel_size + 2 * a.hidden_size
    sums = _FP32 * plan.tokens * a.num_attention_heads // plan.tensor_parallel_size
    return plan.weight_bytes * plan.tokens * columns + sums


def count_live(plan: RankPlan) -> int:
    """Bytes of saved activations while the backward pass works on one layer, or on one chunk of recomputed layers."""
    if plan.checkpoint_layers == 0:
        return _count_edge_layer(plan)
    return count_hidden(plan) + count_recomputed(plan)


def count_recomputed(plan: RankPlan) -> int:
    """Bytes that the backward pass saves again for one chunk of recomputed layers; 0 where nothing is recomputed."""
    return min(plan.checkpoint_layers, plan.architecture.num_layers) * _count_edge_layer(plan)


def count_backward_temporaries(plan: RankPlan) -> int:
    """Bytes alive beside the saved ones inside a layer's backward pass, at its widest: the MLP's activation."""
    a = plan.architecture
    width = plan.weight_bytes * plan.tokens * a.ffn_width * (2 if a.is_gated else 1) // plan.tensor_parallel_size
    return width + _count_gathered(plan)


def count_hidden(plan: RankPlan) -> int:
    """Bytes of one tensor of the residual stream."""
    return plan.weight_bytes * plan.tokens * plan.architecture.hidden_size


def _count_share(plan: RankPlan) -> int:
    """Bytes of the part of the residual stream that this rank holds between the layers."""
    return plan.weight_bytes * plan.share_tokens * plan.architecture.hidden_size


def _count_gathered(plan: RankPlan) -> int:
    """Bytes of a gradient gathered over the sequence: the share, the whole, and the whole in the order of the matrix
    product; gloo copies its input and output.
    """
    if not plan.sequence_parallel:
        return 0
    return _count_share(plan) + count_hidden(plan) * (4 if plan.device == "cpu" else 2)


def _count_attention(plan: RankPlan) -> int:
    a = plan.architecture
    queries = a.num_attention_heads * a.head_dim
    if a.attention_dropout and plan.device == "cpu":
        scores = plan.micro_batch * a.num_attention_heads * a.seq_length**2
        # Scores, dropout mask and dropped scores, and queries, keys and values, all in fp32.
        return _FP32 * (3 * scores + plan.tokens * 3 * queries)
    if a.qk_norm:
        keys = a.num_kv_heads * a.head_dim
        # Normed (and rotated) queries and keys beside the projection, which the values are a part of.
        copies = queries + keys
    else:
        # Rotated queries and keys, and values, replace the projection; without rotation grouped queries are copied.
        copies = queries if a.num_kv_heads < a.num_attention_heads and not a.rotary_dim else 0
    if plan.device == "cuda" and not plan.te_attention:
        # Fused kernels get grouped keys and values repeated for every head, in place of the grouped ones.
        copies += 2 * (a.num_attention_heads - a.num_kv_heads) * a.head_dim
    sums = _FP32 * plan.tokens * a.num_attention_heads
    # Queries and keys are copied out of the projection to be normed.
    normed = 2 * (_count_residual(plan) + _count_norm(plan)) if a.qk_norm else 0
    return plan.weight_bytes * plan.tokens * (a.qkv_rows + copies) + normed + sums


def _count_residual(plan: RankPlan) -> int:
    """Bytes of a norm's input, which the norm saves as it is (but for RMSNorm in 16 bits on a CPU, see below)."""
    widened = plan.device == "cpu" and plan.precision != "fp32" and "rms" in plan.architecture.norm
    return 0 if widened else _count_share(plan)


def _count_norm(plan: RankPlan) -> int:
    """Bytes a norm saves besides its input and output."""
    a = plan.architecture
    if "rms" not in a.norm:
        return 2 * plan.share_tokens * (plan.weight_bytes if plan.device == "cpu" else _FP32)
    statistics = _FP32 * plan.share_tokens
    if plan.device == "cuda":
        return statistics
    # On a CPU it is a chain of operations: an fp32 copy of the input (its own in fp32) and the scaled input.
    copies = 1 if plan.precision == "fp32" else 2
    return statistics + copies * _FP32 * plan.share_tokens * a.hidden_size


def _count_mask(plan: RankPlan) -> int:
    """Bytes of one mask of hidden dropout: the tensor's own format on a CPU, a byte an element on a GPU."""
    if not plan.architecture.hidden_dropout:
        return 0
    return _count_share(plan) // (1 if plan.device == "cpu" else plan.weight_bytes)
