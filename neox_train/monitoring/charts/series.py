"""Points of a series: gaps, smoothing, and thinning to what a screen can show."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

Point = tuple[float, float | None]

MAX_POINTS = 500


def runs_of_points(points: Sequence[Point]) -> Iterator[list[tuple[float, float]]]:
    """Stretches of points between gaps."""
    stretch: list[tuple[float, float]] = []
    for x, y in points:
        if y is None:
            if stretch:
                yield stretch
            stretch = []
        else:
            stretch.append((x, y))
    if stretch:
        yield stretch


def thin_points(points: Sequence[Point], limit: int = MAX_POINTS) -> list[Point]:
    """At most about ``limit`` points; of each bucket the lowest and the highest stay, so that spikes are seen."""
    if len(points) <= limit:
        return list(points)
    size = -(-len(points) // (limit // 2))
    kept: list[Point] = []
    for start in range(0, len(points), size):
        bucket = points[start : start + size]
        values = [index for index, (_, y) in enumerate(bucket) if y is not None]
        if len(values) < len(bucket):
            kept.append((bucket[0][0], None))
        if values:
            extremes = {min(values, key=lambda i: bucket[i][1] or 0.0), max(values, key=lambda i: bucket[i][1] or 0.0)}
            kept += [bucket[index] for index in sorted(extremes)]
    return kept


def smooth_points(points: Sequence[Point], *, window: int) -> list[Point]:
    """Mean over the ``window`` points around each point, so that a fall is not shown late.

    At the start, where losses fall fast, the window shrinks evenly; at the end it loses its later half.

    Gaps stay gaps and do not count.
    """
    sums, counts = [0.0], [0]
    for _, y in points:
        sums.append(sums[-1] + (y or 0.0))
        counts.append(counts[-1] + (y is not None))
    smoothed: list[Point] = []
    for index, (x, y) in enumerate(points):
        reach = min(window // 2, index)
        first, last = index - reach, min(index + reach + 1, len(points))
        mean = (sums[last] - sums[first]) / max(counts[last] - counts[first], 1)
        smoothed.append((x, None if y is None else mean))
    return smoothed
