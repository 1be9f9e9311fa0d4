from types import SimpleNamespace
from typing import Any, cast

import pytest

from neox_train.training.cadence import count_saves, logs_at, saves_at, validates_at


def config(**changes: Any) -> Any:
    keys = {
        "checkpoint_factor": 10,
        "checkpoint_scale": "linear",
        "extra_save_iters": None,
        "eval_interval": 8,
        "eval_iters": 2,
        "log_interval": 4,
        "train_iters": 30,
    }
    return cast(Any, SimpleNamespace(**{**keys, **changes}))


def steps(predicate: Any, settings: Any, last: int = 30) -> list[int]:
    return [step for step in range(last + 1) if predicate(settings, step)]


def test_linear_scale_saves_every_factor() -> None:
    assert steps(saves_at, config()) == [10, 20, 30]


def test_extra_save_iters_add_steps_the_first_weights_too() -> None:
    assert steps(saves_at, config(extra_save_iters=[0, 1, 7])) == [0, 1, 7, 10, 20, 30]


def test_log_scale_saves_at_the_powers() -> None:
    assert steps(saves_at, config(checkpoint_scale="log", checkpoint_factor=3)) == [1, 3, 9, 27]
    assert steps(saves_at, config(checkpoint_scale="log", checkpoint_factor=1.5), last=12) == [1, 2, 3, 5, 7, 11]


@pytest.mark.parametrize("factor", [None, 0])
def test_no_factor_leaves_the_extra_ones(factor: int | None) -> None:
    assert steps(saves_at, config(checkpoint_factor=factor, extra_save_iters=[4])) == [4]


def test_validation_runs_every_interval_and_at_the_end() -> None:
    assert steps(validates_at, config()) == [8, 16, 24, 30]
    assert steps(validates_at, config(eval_iters=0)) == []


def test_lines_come_every_interval_with_checkpoints_and_at_the_end() -> None:
    assert steps(logs_at, config(train_iters=29), last=29) == [0, 4, 8, 10, 12, 16, 20, 24, 28, 29]


@pytest.mark.parametrize("scale, factor", [("linear", 10), ("linear", 7), ("linear", None), ("log", 3), ("log", 1.5)])
@pytest.mark.parametrize("extra", [None, [0, 1, 7, 20, 99]])
@pytest.mark.parametrize("first", [0, 1, 7, 10, 29, 30, 31])
def test_saves_are_counted_as_they_come(scale: str, factor: float | None, extra: list[int] | None, first: int) -> None:
    settings = config(checkpoint_scale=scale, checkpoint_factor=factor, extra_save_iters=extra)
    wanted = sum(step == 30 or saves_at(settings, step) for step in range(first, 31))
    assert count_saves(settings, first) == wanted


def test_counting_takes_no_time_by_the_step() -> None:
    assert count_saves(config(train_iters=10**15), 1) == 10**14
    assert count_saves(config(train_iters=10**15, checkpoint_scale="log", checkpoint_factor=10), 1) == 16
