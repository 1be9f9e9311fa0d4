"""Scales and ticks."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from neox_train.monitoring.charts.scale import Scale, tick_labels, tick_values, value_range


@pytest.mark.parametrize(
    ("low", "high", "count", "labels"),
    [
        (0, 300, 6, ["0", "50", "100", "150", "200", "250", "300"]),
        (3.1, 3.52, 4, ["3.1", "3.2", "3.3", "3.4", "3.5"]),
        (0, 0.00104, 4, ["0", "0.00025", "0.00050", "0.00075", "0.00100"]),
        (0, 6e-5, 3, ["0", "2e−5", "4e−5", "6e−5"]),
        (0, 12_400, 3, ["0", "5K", "10K"]),
        (0, 2.2e6, 4, ["0", "0.5M", "1.0M", "1.5M", "2.0M"]),
        (-1, 1, 4, ["−1.0", "−0.5", "0", "0.5", "1.0"]),
    ],
)
def test_ticks_are_round(low: float, high: float, count: int, labels: list[str]):
    assert tick_labels(tick_values(low, high, count)) == labels


@given(st.floats(-1e9, 1e9), st.floats(1e-6, 1e9), st.integers(3, 12))
def test_ticks_stay_in_the_range_and_labels_tell_them_apart(low: float, span: float, count: int):
    high = low + span
    if high <= low or span < abs(low) * 1e-4:
        return
    ticks = tick_values(low, high, count)
    assert 1 <= len(ticks) <= 1.5 * count + 1
    assert all(low - span * 1e-6 <= tick <= high + span * 1e-6 for tick in ticks)
    assert len(set(tick_labels(ticks))) == len(ticks)


def test_ranges():
    assert value_range([]) == (-0.04, 1.04)
    assert value_range([2.0, 4.0]) == (1.92, 4.08)
    assert value_range([1.0, 2.0], from_zero=True) == (0.0, 2.08)
    low, high = value_range([5.0])
    assert low < 5.0 < high
    assert value_range([0.0, 0.0], from_zero=True) == (0.0, 0.5)


def test_a_scale_maps_its_ends():
    scale = Scale(2.0, 4.0, 100.0, 0.0)
    assert (scale(2.0), scale(3.0), scale(4.0)) == (100.0, 50.0, 0.0)
