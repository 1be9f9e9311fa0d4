from __future__ import annotations

import pytest

from neox_train.config.reduction import list_reduction_problems
from neox_train.config.support import list_unsupported
from tests.config.files import load_tiny


@pytest.mark.parametrize(
    ("stage", "zero", "change", "problem"),
    [
        (1, {"allgather_partitions": False}, {}, "allgather_partitions: false (remove it"),
        (1, {"contiguous_gradients": False}, {}, "contiguous_gradients: false at stages 1 and 2 (remove it"),
        (2, {"contiguous_gradients": False}, {}, "replicas would train apart"),
        (2, {}, {"prescale_gradients": True}, "prescale_gradients at zero_optimization.stage 2 with reduce_scatter"),
        (2, {}, {"gradient_predivide_factor": 2.0}, "gradient_predivide_factor at zero_optimization.stage 2"),
        (3, {"reduce_scatter": False}, {"prescale_gradients": True}, "prescale_gradients at zero_optimization.stage 3"),
        (3, {}, {"gradient_predivide_factor": 2.0}, "gradient_predivide_factor at zero_optimization.stage 3"),
    ],
)
def test_a_key_that_would_not_do_what_it_says_is_refused(
    stage: int, zero: dict[str, object], change: dict[str, object], problem: str
) -> None:
    (found,) = list_unsupported(load_tiny(zero_optimization={"stage": stage, **zero}, **change))
    assert problem in found


@pytest.mark.parametrize(
    ("stage", "zero", "change"),
    [
        (0, {}, {"prescale_gradients": True}),
        (0, {"allgather_partitions": False, "contiguous_gradients": False}, {"gradient_predivide_factor": 2.0}),
        (1, {"allgather_partitions": True, "contiguous_gradients": True}, {"prescale_gradients": True}),
        (2, {"reduce_scatter": False}, {"gradient_predivide_factor": 2.0}),
        (3, {"contiguous_gradients": False}, {}),
    ],
)
def test_what_is_in_effect_passes(stage: int, zero: dict[str, object], change: dict[str, object]) -> None:
    assert list_reduction_problems(load_tiny(zero_optimization={"stage": stage, **zero}, **change)) == []
