from __future__ import annotations

import pytest

from neox_train.config.architecture import Architecture
from neox_train.config.fp8 import Fp8Recipe, choose_recipe
from tests.config.files import load_tiny, refuse_tiny

HALVES: dict[str, object] = {"model_parallel_size": 2, "processes": 2, "train_micro_batch_size_per_gpu": 1}
WIDE_HEADS: dict[str, object] = {
    "hidden_size": 256,
    "num_attention_heads": 2,
    "seq_length": 128,
    "max_position_embeddings": 128,
}
LAYERS: dict[str, object] = {"te_mha": True, "te_layernorm_mlp": True, "precision": "bfloat16"}


@pytest.mark.parametrize(
    ("keys", "recipe"),
    [
        ({}, None),
        ({"te_fp8_margin": 3}, None),
        (
            {"te_fp8": True, "te_fp8_margin": 2, "te_fp8_amax_history_len": 16, "te_fp8_amax_compute_algo": "max"},
            Fp8Recipe(
                kind="delayed",
                class_name="DelayedScaling",
                fp8_format="HYBRID",
                settings={"margin": 2, "amax_history_len": 16, "amax_compute_algo": "max"},
            ),
        ),
        (
            {"te_fp8_recipe": "current", "te_fp8_format": "e4m3"},
            Fp8Recipe(kind="current", class_name="Float8CurrentScaling", fp8_format="E4M3", settings={}),
        ),
        (
            {"te_fp8_recipe": "mxfp8"},
            Fp8Recipe(kind="mxfp8", class_name="MXFP8BlockScaling", fp8_format="HYBRID", settings={}),
        ),
        (
            {"te_fp8_mha": True, **WIDE_HEADS},
            Fp8Recipe(
                kind="delayed",
                class_name="DelayedScaling",
                fp8_format="HYBRID",
                settings={"margin": 0, "amax_history_len": 1, "amax_compute_algo": "most_recent", "fp8_dpa": True},
            ),
        ),
    ],
)
def test_keys_describe_a_recipe(keys: dict[str, object], recipe: Fp8Recipe | None) -> None:
    assert choose_recipe(load_tiny(**LAYERS, **keys)) == recipe


@pytest.mark.parametrize(
    ("keys", "told"),
    [
        ({"te_fp8": True}, "set te_mha: true and te_layernorm_mlp: true"),
        ({**LAYERS, "te_fp8": True, "precision": "fp32"}, "set precision: bfloat16"),
        ({**LAYERS, "te_fp8": True, "te_fp8_wgrad": False}, "leave te_fp8_wgrad out"),
        ({"te_layernorm_mlp": True, "precision": "bfloat16", "te_fp8_mha": True}, "set te_mha: true"),
        ({**LAYERS, "te_fp8": True, "hidden_size": 72, "rotary_pct": 1.0}, "hidden_size is 72"),
        ({**LAYERS, "te_fp8": True, "intermediate_size": 200}, "the MLP's width is 200"),
        ({**LAYERS, "te_fp8_recipe": "dynamic"}, "delayed"),
        ({**LAYERS, "te_fp8_mha": True}, "kernels for heads of 128"),
        ({**LAYERS, **WIDE_HEADS, "te_fp8_mha": True, "attention_dropout": 0.1}, "set it to 0"),
        ({**LAYERS, **WIDE_HEADS, "te_fp8_mha": True, "te_fp8_recipe": "current"}, "set te_fp8_recipe: delayed"),
        ({**LAYERS, "te_fp8": True, "te_fp8_first_last_layers_bf16": 1}, "leaves no layer of 2 in FP8"),
        (
            {**LAYERS, "te_fp8": True, "hidden_size": 48, "num_attention_heads": 2, "rotary_pct": 1.0, **HALVES},
            "on each of 2 tensor-parallel ranks, hidden_size is 48",
        ),
        ({**LAYERS, "te_fp8": True, **HALVES, "sequence_parallel": True, "seq_length": 16}, "x seq_length is 16"),
    ],
)
def test_what_cannot_run_in_fp8_is_refused(keys: dict[str, object], told: str) -> None:
    assert told in refuse_tiny(**{"precision": "bfloat16", **keys})


def test_the_architecture_and_the_digest_do_not_depend_on_the_backend() -> None:
    plain = load_tiny(bias_gelu_fusion=True, precision="bfloat16").with_vocab_size(97)
    by_te = load_tiny(**LAYERS, norm="te_layernorm").with_vocab_size(97)
    assert Architecture.from_config(plain).activation == Architecture.from_config(by_te).activation == "gelu_tanh"
    assert plain.training_digest() == by_te.training_digest()
    in_fp8 = load_tiny(**LAYERS, te_fp8=True).with_vocab_size(97)
    assert in_fp8.training_digest() != by_te.training_digest()
