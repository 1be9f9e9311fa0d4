"""Activation bytes against what autograd saves for the real model."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from neox_train.memory.activations import count_activations, count_layer
from tests.memory.plans import make_plan
from tests.memory.saved import build_model, measure_saved

KINDS: dict[str, dict[str, Any]] = {
    "serial": {},
    "parallel": {"residual": "parallel"},
    "tied parallel": {"residual": "parallel_tied"},
    "learned positions": {"pos_emb": "learned"},
    "grouped queries": {"num_kv_heads": 2},
    "grouped queries, learned positions": {"num_kv_heads": 2, "pos_emb": "learned"},
    "gated": {"activation": "swiglu"},
    "relu": {"activation": "relu"},
    "rmsnorm": {"norm": "rmsnorm"},
    "hidden dropout": {"hidden_dropout": 0.1},
    "attention dropout": {"attention_dropout": 0.1},
    "full rotary": {"rotary_pct": 1.0},
    "sliding window": {"sliding_window": 9},
    "alibi": {"pos_emb": "alibi"},
    "alibi, grouped queries, local layers": {
        "pos_emb": "alibi",
        "num_kv_heads": 2,
        "attention_layers": ("local", "local"),
    },
    "sinusoidal positions": {"pos_emb": "sinusoidal"},
    "normed queries and keys": {"qk_norm": True},
    "normed queries and keys without positions": {"qk_norm": True, "pos_emb": "none"},
    "normed queries and keys, rmsnorm": {"qk_norm": True, "norm": "rmsnorm"},
    "tied embeddings": {"tied_embeddings": True},
}


@pytest.mark.parametrize("precision", ["fp32", "bfloat16"])
@pytest.mark.parametrize("kind", KINDS)
def test_saved_bytes_equal_autograd_s(kind: str, precision: str) -> None:
    plan = make_plan(architecture=KINDS[kind], precision=precision, train_micro_batch_size_per_gpu=3)
    measured = measure_saved(*build_model(plan))
    log_probabilities = 4 * plan.tokens * plan.architecture.vocab_size
    # The targets, their number, and the weight of the sum.
    targets = 8 * plan.tokens + 8 + 4
    assert measured == count_activations(plan) + log_probabilities + targets


@pytest.mark.parametrize("kind", ["serial", "alibi", "alibi, grouped queries, local layers"])
def test_masks_that_end_at_documents_are_kept_for_each_sequence(kind: str) -> None:
    plan = make_plan(architecture=KINDS[kind], document_attention=True, train_micro_batch_size_per_gpu=3)
    model, tokens = build_model(plan)
    measured = measure_saved(model, tokens)
    # Those for no document in particular are the model's own, which no backward pass asks for.
    heads = plan.architecture.num_attention_heads if "alibi" in kind else 1
    own = 4 * heads * plan.architecture.seq_length**2
    log_probabilities, targets = 4 * plan.tokens * plan.architecture.vocab_size, 8 * plan.tokens + 8 + 4
    assert measured == count_activations(plan) - own + log_probabilities + targets


@pytest.mark.parametrize("chunk", [1, 2])
def test_recomputed_layers_keep_their_input_only(chunk: int) -> None:
    plan = make_plan(num_layers=4, checkpoint_activations=True, checkpoint_num_layers=chunk)
    kept = make_plan(num_layers=4)
    hidden = 4 * plan.tokens * plan.architecture.hidden_size
    assert count_activations(kept) - count_activations(plan) == 4 * count_layer(kept) - (4 // chunk) * hidden


def test_on_a_gpu_grouped_keys_and_values_are_kept_for_every_head() -> None:
    plan = replace(make_plan(), device="cuda")
    a = plan.architecture
    grouped = replace(plan, architecture=replace(a, num_kv_heads=a.num_attention_heads // 2))
    assert count_layer(grouped) == count_layer(plan)
    by_te = replace(grouped, te_attention=True)
    assert count_layer(by_te) < count_layer(replace(plan, te_attention=True))
