import math
from pathlib import Path

import pytest

from neox_train.training.schedule import DecayStyle, LearningRateSchedule

CASES = Path(__file__).parents[1] / "cases"


def schedule(
    *, decay_style: DecayStyle = "cosine", decay_iters: int = 100, warmup: float = 0.1, min_lr: float = 1e-4
) -> LearningRateSchedule:
    return LearningRateSchedule(lr=1e-3, min_lr=min_lr, decay_style=decay_style, decay_iters=decay_iters, warmup=warmup)


def rows() -> list[tuple[int, float]]:
    lines = (CASES / "23-cosine.tsv").read_text().splitlines()
    pairs = [line.split("\t") for line in lines if line and not line.startswith("#")]
    return [(int(iteration), float(value)) for iteration, value in pairs]


@pytest.mark.parametrize(("iteration", "expected"), rows())
def test_cosine_has_the_reported_values(iteration: int, expected: float) -> None:
    assert schedule().lr_at(iteration) == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("style", ["constant", "linear", "cosine", "exponential", "wsd", "inverse_sqrt"])
@pytest.mark.parametrize("warmup", [0.0, 0.01, 0.04, 0.5, 1.0])
def test_no_update_exceeds_the_peak_or_leaves_the_numbers(style: DecayStyle, warmup: float) -> None:
    values = [schedule(decay_style=style, decay_iters=20, warmup=warmup).lr_at(step) for step in range(60)]
    assert all(math.isfinite(value) and 0 < value <= 1e-3 for value in values)
    assert max(values) == pytest.approx(1e-3, rel=0.02)


@pytest.mark.parametrize("style", ["linear", "cosine", "wsd"])
def test_the_end_stays_at_the_minimum(style: DecayStyle) -> None:
    values = [schedule(decay_style=style).lr_at(step) for step in (100, 101, 150, 10_000)]
    assert values == [1e-4] * 4


def test_linear_falls_by_equal_steps_until_the_floor() -> None:
    linear = schedule(decay_style="linear")
    assert linear.lr_at(55) == pytest.approx(5e-4)
    assert linear.lr_at(20) - linear.lr_at(21) == pytest.approx(1e-3 / 90)
    assert linear.lr_at(95) == 1e-4


def test_exponential_halves_over_the_span_and_goes_on_to_the_floor() -> None:
    exponential = schedule(decay_style="exponential")
    assert exponential.lr_at(100) == pytest.approx(5e-4)
    assert exponential.lr_at(190) == pytest.approx(2.5e-4)
    assert exponential.lr_at(10_000) == 1e-4


def test_constant_keeps_the_peak_after_the_warm_up() -> None:
    constant = schedule(decay_style="constant")
    assert [constant.lr_at(step) for step in (1, 10, 11, 1000)] == [pytest.approx(1e-4), 1e-3, 1e-3, 1e-3]


def test_wsd_keeps_the_peak_and_falls_linearly_at_the_end() -> None:
    wsd = schedule(decay_style="wsd")
    assert [wsd.lr_at(step) for step in (11, 50, 90)] == [pytest.approx(1e-3)] * 3
    assert wsd.lr_at(95) == pytest.approx((1e-3 + 1e-4) / 2)
    assert wsd.lr_at(91) - wsd.lr_at(92) == pytest.approx(wsd.lr_at(98) - wsd.lr_at(99))


def test_wsd_without_a_stable_part_decays_right_after_the_warm_up() -> None:
    wsd = LearningRateSchedule(
        lr=1e-3, min_lr=0.0, decay_style="wsd", decay_iters=100, warmup=0.2, wsd_decay_fraction=1.0
    )
    assert wsd.lr_at(20) == 1e-3
    assert wsd.lr_at(60) == pytest.approx(5e-4)


def test_inverse_sqrt_falls_from_the_warm_up_on_and_passes_the_decay_span() -> None:
    falling = schedule(decay_style="inverse_sqrt")
    assert falling.lr_at(10) == 1e-3
    assert falling.lr_at(40) == pytest.approx(1e-3 / 2)
    assert falling.lr_at(160) == pytest.approx(1e-3 / 4)
    assert falling.lr_at(100_000) == 1e-4
    assert schedule(decay_style="inverse_sqrt", warmup=0.0).lr_at(3) == pytest.approx(1e-3 / 2)
