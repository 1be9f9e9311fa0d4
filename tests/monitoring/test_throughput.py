from dataclasses import replace

import pytest

from neox_train.config.architecture import Architecture
from neox_train.monitoring.throughput import count_matrix_weights, flops_per_token, model_flops_utilisation

PYTHIA_70M = Architecture(
    num_layers=6,
    hidden_size=512,
    num_attention_heads=8,
    num_kv_heads=8,
    ffn_width=2048,
    seq_length=2048,
    max_position_embeddings=2048,
    vocab_size=50277,
    padded_vocab_size=50304,
    residual="parallel",
    tied_embeddings=False,
    norm="layernorm",
    norm_epsilon=1e-5,
    activation="gelu",
    pos_emb="rotary",
    rotary_pct=0.25,
    rotary_emb_base=10000,
    attention_bias=True,
    mlp_bias=True,
    hidden_dropout=0.0,
    attention_dropout=0.0,
    attention_layers=("global",) * 6,
    init_method="small_init",
    output_layer_init_method="wang_init",
    init_method_std=0.02,
)


def test_the_closed_form_of_a_plain_transformer() -> None:
    h, layers, s, v = 512, 6, 2048, 50304
    expected = 72 * layers * h**2 * (1 + s / (6 * h) + v / (12 * layers * h))
    assert flops_per_token(PYTHIA_70M) == pytest.approx(expected, rel=1e-12)


def test_a_tied_output_costs_the_same_and_fewer_key_value_heads_cost_less() -> None:
    assert flops_per_token(replace(PYTHIA_70M, tied_embeddings=True)) == flops_per_token(PYTHIA_70M)
    saved = flops_per_token(PYTHIA_70M) - flops_per_token(replace(PYTHIA_70M, num_kv_heads=2))
    assert saved == 6 * 6 * (2 * 6 * 64 * 512)


def test_a_gated_mlp_has_three_matrices() -> None:
    gated = replace(PYTHIA_70M, activation="swiglu")
    assert count_matrix_weights(gated) - count_matrix_weights(PYTHIA_70M) == 6 * 2048 * 512


def test_utilisation_is_the_share_of_the_peak() -> None:
    share = model_flops_utilisation(tokens_per_second_per_device=1e6, flops_per_token=10**8, peak_tflops=400.0)
    assert share == pytest.approx(0.25)
    assert model_flops_utilisation(tokens_per_second_per_device=1e6, flops_per_token=1, peak_tflops=None) is None
