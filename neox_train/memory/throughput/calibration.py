"""Rates refitted to what runs really reached."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from neox_train.memory.plan import RankPlan
from neox_train.memory.throughput.rates import HardwareRates
from neox_train.memory.throughput.step import predict_step

_ROUNDS = 40


@dataclass(frozen=True, slots=True)
class TimedRun:
    """A run's plans, one a pipeline stage, and the seconds its optimizer steps took."""

    name: str
    plans: tuple[RankPlan, ...]
    seconds: float


def predict_ratio(run: TimedRun, rates: HardwareRates) -> float | None:
    """Predicted over measured seconds of a step; None where nothing is predicted for it."""
    step = predict_step(run.plans, rates)
    return None if step is None else step.total / run.seconds


def fit_matrix_fraction(runs: Sequence[TimedRun], rates: HardwareRates) -> float | None:
    """The share of the peak in matrix products at which the median ratio is 1; at most 1, None without a usable run.

    Steps get shorter as the share grows, so halving the interval finds it.
    """
    usable = [run for run in runs if predict_ratio(run, rates) is not None]
    if not usable:
        return None
    low, high = 0.01, 1.0
    for _ in range(_ROUNDS):
        middle = (low + high) / 2
        tried = rates.with_matrix_fraction(middle)
        ratios = [ratio for run in usable if (ratio := predict_ratio(run, tried)) is not None]
        if statistics.median(ratios) > 1:
            low = middle
        else:
            high = middle
    return round((low + high) / 2, 4)
