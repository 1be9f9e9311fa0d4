"""Layers by Transformer Engine: bytes an element of each tensor that its modules save."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from neox_train.memory.activations import count_activations, count_layer
from neox_train.memory.phases import list_phases
from neox_train.memory.plan import RankPlan
from neox_train.memory.transformer_engine import count_fp8_weights
from tests.memory.plans import make_plan

HALVES = {"te_attention": True, "te_mlp": True}


def _plan(**changes: Any) -> RankPlan:
    return replace(make_plan(precision="bfloat16", num_layers=6), device="cuda", **changes)


def _bytes_an_element(plan: RankPlan) -> float:
    """Bytes a layer saves for each element of the residual stream, without the norms' and attention's statistics."""
    statistics = 4 * plan.tokens * (2 * 2 + plan.architecture.num_attention_heads)
    return (count_layer(plan) - statistics) / (plan.tokens * plan.architecture.hidden_size)


# Two inputs of norms, queries to values, the attention's output and the MLP's projection are 4, 6, 2 and 8 bytes in
# each; the rest are the inputs of the four products.
@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        (HALVES, 20 + 2 + 2 + 8),
        ({**HALVES, "fp8": "delayed"}, 20 + 1 + 1 + 2 + 4),
        ({**HALVES, "fp8": "current"}, 20 + 1 + 1 + 2 + 4),
        ({**HALVES, "fp8": "blockwise"}, 20 + (1 + 1 + 2 + 8) * (1 + 1 / 32)),
        ({"te_columns": True, "te_rows": True, "fp8": "delayed"}, 20 + 1 + 1 + 1 + 4),
        ({"te_mlp": True, "fp8": "delayed"}, 20 + 2 + 2 + 4),
    ],
)
def test_a_layer_saves_each_product_s_input_once(changes: dict[str, Any], expected: float) -> None:
    assert _bytes_an_element(_plan(**changes)) == pytest.approx(expected)


def test_a_fused_gate_keeps_one_tensor_less() -> None:
    gated = replace(_plan().architecture, activation="swiglu")
    plain, fused = _plan(architecture=gated), _plan(architecture=gated, te_mlp=True)
    assert count_layer(plain) - count_layer(fused) == 2 * plain.tokens * gated.ffn_width


def test_layers_at_the_ends_stay_in_16_bits() -> None:
    every, inner = _plan(**HALVES, fp8="delayed"), _plan(**HALVES, fp8="delayed", edge_layers=1)
    widened = count_activations(inner) - count_activations(every)
    assert widened == 2 * (count_layer(_plan(**HALVES)) - count_layer(every)) > 0


def test_copies_of_weights_stand_until_the_backward_pass_of_their_layer() -> None:
    plan = _plan(**HALVES, fp8="delayed")
    weights = 12 * plan.architecture.hidden_size**2
    copies = {phase.name: phase.parts["fp8_weights"] for phase in list_phases(plan)}
    assert copies["loss"] == 2 * 6 * weights == count_fp8_weights(plan, 6)
    assert copies["backward, first layer"] == 2 * weights
    assert copies["optimizer step"] == 0
    recomputed = {p.name: p.parts["fp8_weights"] for p in list_phases(replace(plan, checkpoint_layers=1))}
    assert recomputed["loss"] == 0 and recomputed["backward, last layer"] == 2 * weights


@pytest.mark.parametrize(("capability", "expected_mib"), [(9.0, 3 * 32), (8.0, 2 * 8.125 + 4)])
def test_a_gpu_keeps_workspaces_of_matrix_products(capability: float, expected_mib: float) -> None:
    (loss,) = (p for p in list_phases(_plan(**HALVES, compute_capability=capability)) if p.name == "loss")
    assert loss.parts["workspaces"] == expected_mib * (1 << 20)


def test_a_tensor_parallel_rank_keeps_its_share() -> None:
    whole, half = (_plan(**HALVES, fp8="delayed", tensor_parallel_size=size) for size in (1, 2))
    shared = replace(half, sequence_parallel=True)
    assert count_layer(shared) < count_layer(half) < count_layer(whole)
    assert 2 * count_fp8_weights(half, 1) == count_fp8_weights(whole, 1)
