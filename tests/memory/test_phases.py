"""The peak of a forward and backward pass against the allocator's own record."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from neox_train.config.parameters import count_parameters
from neox_train.memory.phases import PARTS, list_phases
from neox_train.memory.plan import RankPlan
from tests.memory.plans import make_plan
from tests.memory.saved import build_model, measure_peak

CASES: dict[str, dict[str, Any]] = {
    "small vocabulary": {},
    "bf16": {"precision": "bfloat16"},
    "recomputed": {"checkpoint_activations": True, "num_layers": 6},
    "parallel residual": {"gpt_j_residual": True},
    "long sequences": {"seq_length": 256, "max_position_embeddings": 256, "num_layers": 3},
}


def _predict(plan: RankPlan) -> int:
    """Peak of forward and backward beyond the standing tensors."""
    passes = [phase for phase in list_phases(plan) if phase.name == "loss" or phase.name.startswith("backward")]
    return max(sum(phase.parts[name] for name in ("gradients", "activations", "logits_and_loss")) for phase in passes)


@pytest.mark.parametrize("vocab_size", [251, 4096])
@pytest.mark.parametrize("case", CASES)
def test_peak_is_within_three_percent_of_the_allocator_s(case: str, vocab_size: int) -> None:
    plan = make_plan(**CASES[case], vocab_size=vocab_size, train_micro_batch_size_per_gpu=8)
    measured = measure_peak(*build_model(plan))
    assert _predict(plan) == pytest.approx(measured, rel=0.03)


def test_parts_add_up_to_the_phase() -> None:
    for phase in list_phases(make_plan()):
        assert tuple(phase.parts) == PARTS
        assert phase.total == sum(phase.parts.values())


def test_a_gpu_allocates_the_whole_reduction_bucket() -> None:
    plan = replace(make_plan(zero_optimization={"stage": 2}), device="cuda")
    communication = {phase.name: phase.parts["communication"] for phase in list_phases(plan)}
    assert communication["gradient reduction"] > 4 * 500_000_000
    assert communication["loss"] == 0


def test_one_replica_gathers_what_lies_in_the_host_s_memory() -> None:
    zero = {"stage": 3, "stage3_param_persistence_threshold": 0, "offload_optimizer": {"device": "cpu"}}

    def gather(**blocks: object) -> int:
        plan = replace(make_plan(world_size=1, zero_optimization={**zero, **blocks}), device="cuda")
        communication = {phase.name: phase.parts["communication"] for phase in list_phases(plan)}["loss"]
        limited = {p.name: p.parts["communication"] for p in list_phases(replace(plan, max_live_parameters=0))}["loss"]
        return communication - limited

    plan = make_plan(zero_optimization=zero)
    assert gather(offload_param={"device": "cpu"}) == plan.weight_bytes * count_parameters(plan.architecture)
    assert gather() == 0


def test_zero_3_gathers_up_to_its_limit_of_live_parameters() -> None:
    plan = make_plan(zero_optimization={"stage": 3, "stage3_param_persistence_threshold": 0})
    loss = {phase.name: phase.parts["communication"] for phase in list_phases(plan)}["loss"]
    limited = {p.name: p.parts["communication"] for p in list_phases(replace(plan, max_live_parameters=1000))}["loss"]
    parameters = 4 * count_parameters(plan.architecture)
    assert loss - limited == parameters - 4 * 1000
    assert all(phase.parts["weights"] < parameters for phase in list_phases(plan))
