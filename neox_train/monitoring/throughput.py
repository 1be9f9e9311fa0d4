"""Floating-point operations of a training step, counted from the architecture, and the utilisation they give (MFU)."""

from __future__ import annotations

from neox_train.config.architecture import Architecture

_OPERATIONS_PER_WEIGHT = 2
"""A multiplication and an addition for each weight and token in a forward pass."""
_PASSES = 3
"""Forward, gradient of the inputs, gradient of the weights. Recomputed activations are not counted: MFU, not HFU."""


def count_matrix_weights(architecture: Architecture) -> int:
    """Weights that every token is multiplied with: projections of all layers and the output matrix.

    The embedding is a look-up and costs nothing; the output matrix counts with its padding, which is multiplied too.
    """
    a = architecture
    mlp_rows = 2 * a.ffn_width if a.is_gated else a.ffn_width
    layer = a.qkv_rows * a.hidden_size + a.hidden_size**2 + (mlp_rows + a.ffn_width) * a.hidden_size
    return a.num_layers * layer + a.padded_vocab_size * a.hidden_size


def flops_per_token(architecture: Architecture) -> int:
    """Model FLOPs that training spends on one token: ``6 * weights + 12 * layers * hidden * sequence``.

    Source: PaLM (arXiv 2204.02311, appendix B), with the weights of this architecture counted exactly. The attention
    term takes the whole square of the sequence, with no discount for the causal half, as PaLM, GPT-NeoX and
    torchtitan do, so that percentages compare. Norms, biases, softmax and activation functions are left out.
    """
    a = architecture
    scores_and_values = 2 * _OPERATIONS_PER_WEIGHT * a.seq_length * a.num_attention_heads * a.head_dim
    return _PASSES * (_OPERATIONS_PER_WEIGHT * count_matrix_weights(a) + a.num_layers * scores_and_values)


def model_flops_utilisation(
    *, tokens_per_second_per_device: float, flops_per_token: int, peak_tflops: float | None
) -> float | None:
    """Share of the device's peak that the model's FLOPs use, from 0 to 1; None where the peak is not known."""
    if not peak_tflops:
        return None
    return tokens_per_second_per_device * flops_per_token / (peak_tflops * 1e12)
