"""Points of a series: gaps, smoothing, thinning."""

from __future__ import annotations

from neox_train.monitoring.charts.series import runs_of_points, smooth_points, thin_points


def test_gaps_part_the_line():
    points = [(1, 1.0), (2, None), (3, 2.0), (4, 3.0), (5, None)]
    assert list(runs_of_points(points)) == [[(1, 1.0)], [(3, 2.0), (4, 3.0)]]


def test_a_straight_line_stays_straight_when_smoothed():
    points = [(x, 10.0 - 0.5 * x) for x in range(40)]
    smoothed = smooth_points(points, window=9)
    for (_, before), (_, after) in zip(points[:-4], smoothed[:-4], strict=True):
        assert after is not None and abs(after - before) < 1e-9
    assert smoothed[-1] == (39, sum(10.0 - 0.5 * x for x in range(35, 40)) / 5)


def test_smoothing_leaves_gaps_out():
    points = [(0, 1.0), (1, None), (2, 3.0)]
    assert smooth_points(points, window=3) == [(0, 1.0), (1, None), (2, 3.0)]
    assert smooth_points([(0, 0.0), (1, 3.0), (2, 6.0)], window=3)[1] == (1, 3.0)


def test_thinning_keeps_spikes_and_gaps():
    points = [(x, float(x % 7)) for x in range(10_000)]
    points[4321], points[8000] = (4321, 1000.0), (8000, None)
    kept = thin_points(points, limit=400)
    assert len(kept) <= 450
    assert (4321, 1000.0) in kept
    assert any(y is None for _, y in kept)
    assert [x for x, _ in kept] == sorted(x for x, _ in kept)


def test_few_points_are_left_alone():
    points = [(0, 1.0), (1, None)]
    assert thin_points(points) == points
