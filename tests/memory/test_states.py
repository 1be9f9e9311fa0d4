"""Which tensors exist from step to step, by ZeRO stage and precision (real engines: test_engine_bytes)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from neox_train.config.parameters import count_parameters
from neox_train.memory.states import choose_wrapper, count_static
from tests.memory.plans import make_plan


@pytest.mark.parametrize(
    ("stage", "precision", "accumulation", "expected"),
    [
        (0, "fp32", 4, "none"),
        (0, "fp16", 2, "unfused"),
        (0, "bfloat16", 2, "unfused"),
        (1, "fp32", 4, "zero12"),
        (1, "bfloat16", 4, "bf16"),
        (1, "bfloat16", 2, "zero12"),
        (2, "bfloat16", 4, "zero12"),
        (1, "fp16", 2, "zero12"),
        (3, "bfloat16", 2, "zero3"),
    ],
)
def test_wrapper(stage: int, precision: str, accumulation: int, expected: str) -> None:
    plan = replace(make_plan(), zero_stage=stage, precision=precision, accumulation_bytes=accumulation)  # type: ignore[arg-type]
    assert choose_wrapper(plan) == expected


def test_fp32_without_zero_is_twelve_bytes_a_parameter_and_a_step_count_a_tensor() -> None:
    plan = make_plan()
    tensors = 2 + 2 * 12 + 2
    assert count_static(plan).total == 12 * count_parameters(plan.architecture) + 4 * tensors


def test_16_bits_without_zero_is_fourteen_bytes_a_parameter() -> None:
    plan = replace(make_plan(), precision="fp16", accumulation_bytes=2)
    tensors = 2 + 2 * 12 + 2
    assert count_static(plan).total == 14 * count_parameters(plan.architecture) + 4 * tensors


@pytest.mark.parametrize("ranks", [2, 8, 64])
def test_zero_shares_masters_and_states_over_ranks(ranks: int) -> None:
    plan = replace(make_plan(), zero_stage=1, data_parallel_size=ranks)
    static, parameters = count_static(plan), count_parameters(plan.architecture)
    padding = 2 * 2 * ranks
    assert 4 * parameters <= static.weights <= 4 * (parameters + padding)
    assert static.master_weights * ranks == static.weights
    assert static.optimizer_states == 2 * static.master_weights + 2 * 4


def test_bf16_with_fp32_accumulation_keeps_a_whole_fp32_gradient() -> None:
    plan = replace(make_plan(), zero_stage=1, precision="bfloat16", accumulation_bytes=4)
    static = count_static(plan)
    assert static.gradients == 2 * static.weights


def test_zero3_shares_weights_but_keeps_small_parameters_whole() -> None:
    plan = replace(make_plan(), zero_stage=3, precision="bfloat16", accumulation_bytes=2, data_parallel_size=4)
    whole = replace(plan, persistence_threshold=10**9)
    none = replace(plan, persistence_threshold=0)
    parameters = count_parameters(plan.architecture)
    assert count_static(none).weights == pytest.approx(2 * parameters / 4, rel=0.01)
    assert count_static(whole).weights - count_static(none).weights == 2 * parameters
