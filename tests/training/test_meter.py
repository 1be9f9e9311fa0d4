import math

import pytest

from neox_train.training.meter import IntervalMeter, finite_or_none
from neox_train.training.step import StepResult
from neox_train.training.update import Update


def result(loss: float) -> StepResult:
    return StepResult(loss=loss, update=Update(True, 1.0, None), stop=False)


def test_an_interval_is_averaged_and_then_forgotten() -> None:
    meter = IntervalMeter(tokens_per_step=1000, world_size=2, flops_per_token=10**9, peak_tflops=1.0)
    meter.add(result(4.0), 1.0)
    meter.add(result(2.0), 3.0)
    taken = meter.take()
    assert taken["mean_loss"] == 3.0
    assert taken["seconds_per_step"] == 2.0
    assert (taken["tokens_per_second"], taken["tokens_per_second_per_gpu"]) == (500.0, 250.0)
    assert taken["mfu"] == pytest.approx(0.25)
    meter.add(result(7.0), 1.0)
    assert meter.take()["mean_loss"] == 7.0


def test_json_has_no_word_for_what_is_not_finite() -> None:
    assert finite_or_none(1.5) == 1.5
    assert [finite_or_none(value) for value in (math.nan, math.inf, None)] == [None, None, None]
