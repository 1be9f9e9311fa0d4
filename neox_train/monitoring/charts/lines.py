"""A line chart of several series over training steps, with marked steps and labels at the lines' ends."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from neox_train.monitoring.charts.scale import Scale, tick_labels, tick_values, value_range
from neox_train.monitoring.charts.series import Point, runs_of_points, thin_points
from neox_train.monitoring.markup import Html, element

_LEFT, _TOP, _BOTTOM = 52, 14, 40
_LABEL_HEIGHT = 15


@dataclass(frozen=True)
class Series:
    """One line: ``points`` (x, y or None for a gap), the colour slot of its run, and how it is drawn."""

    name: str
    points: Sequence[Point]
    colour: int
    style: Literal["line", "faint", "dots"] = "line"
    end_label: str | None = None


@dataclass(frozen=True)
class Mark:
    """A step worth a vertical line: a restart."""

    x: float
    text: str
    colour: int


@dataclass(frozen=True)
class LineChart:
    """What is drawn, without its size."""

    description: str
    x_label: str
    y_label: str
    series: Sequence[Series]
    marks: Sequence[Mark] = field(default_factory=tuple)
    from_zero: bool = False
    y_limits: tuple[float, float] | None = None


def draw_lines(chart: LineChart, *, width: int, height: int, class_: str = "chart") -> Html:
    """The chart as an SVG of ``width`` x ``height`` units that scales with its container."""
    labels = [series for series in chart.series if series.end_label]
    right = width - 16 - (max((len(series.end_label or "") for series in labels), default=0) * 7.2 + 6 if labels else 0)
    points = [point for series in chart.series for point in series.points if point[1] is not None]
    x = Scale(*_x_range(points), _LEFT, right)
    y = Scale(*(chart.y_limits or _y_range(points, chart.from_zero)), height - _BOTTOM, _TOP)
    return element(
        "svg",
        element("title", chart.description),
        _grid(x, y, right, height),
        _axis_labels(chart, x, height),
        [_draw_mark(mark, x, height) for mark in chart.marks if x.low <= mark.x <= x.high],
        [_draw_series(series, x, y) for series in chart.series],
        _end_labels(labels, x, y),
        viewbox=f"0 0 {width} {height}",
        class_=class_,
        role="img",
        aria_label=chart.description,
    )


def _x_range(points: Sequence[Point]) -> tuple[float, float]:
    low, high = (min(p[0] for p in points), max(p[0] for p in points)) if points else (0.0, 1.0)
    return (0.0 if low < 0.1 * high else low), high if high > low else high + 1


def _y_range(points: Sequence[Point], from_zero: bool) -> tuple[float, float]:
    return value_range((p[1] for p in points if p[1] is not None), from_zero=from_zero)


def _grid(x: Scale, y: Scale, right: float, height: int) -> list[Html]:
    parts = []
    ticks = tick_values(y.low, y.high, max(3, int((y.start - y.stop) / 52)))
    for tick, label in zip(ticks, tick_labels(ticks), strict=True):
        at = f"{y(tick):.1f}"
        parts.append(element("line", x1=_LEFT, x2=f"{right:.1f}", y1=at, y2=at, class_="grid"))
        parts.append(element("text", label, x=_LEFT - 8, y=f"{y(tick) + 4:.1f}", class_="tick", text_anchor="end"))
    ticks = tick_values(x.low, x.high, max(3, int((right - _LEFT) / 110)))
    for tick, label in zip(ticks, tick_labels(ticks), strict=True):
        at = f"{x(tick):.1f}"
        parts.append(element("line", x1=at, x2=at, y1=height - _BOTTOM, y2=height - _BOTTOM + 4, class_="axis"))
        parts.append(element("text", label, x=at, y=height - _BOTTOM + 18, class_="tick", text_anchor="middle"))
    base = height - _BOTTOM
    return [*parts, element("line", x1=_LEFT, x2=f"{right:.1f}", y1=base, y2=base, class_="axis")]


def _axis_labels(chart: LineChart, x: Scale, height: int) -> list[Html]:
    middle = f"{(x.start + x.stop) / 2:.1f}"
    up = f"{(height - _BOTTOM + _TOP) / 2:.1f}"
    return [
        element("text", chart.x_label, x=middle, y=height - 5, class_="label", text_anchor="middle"),
        element(
            "text", chart.y_label, x=12, y=up, class_="label", text_anchor="middle", transform=f"rotate(-90 12 {up})"
        ),
    ]


def _draw_mark(mark: Mark, x: Scale, height: int) -> Html:
    at = f"{x(mark.x):.1f}"
    line = element("line", x1=at, x2=at, y1=_TOP, y2=height - _BOTTOM)
    flag = element("path", d=f"M{at} {_TOP}l5 -5h-10z")
    return element("g", element("title", mark.text), line, flag, class_=f"mark c{mark.colour}")


def _draw_series(series: Series, x: Scale, y: Scale) -> Html:
    lines = []
    for stretch in runs_of_points(thin_points(series.points)):
        places = " ".join(f"{x(px):.1f},{y(py):.1f}" for px, py in stretch)
        lines.append(element("polyline", points=places))
        if series.style == "dots":
            lines += [
                element(
                    "circle",
                    element("title", f"{series.name}, step {px:g}: {py:.4g}"),
                    cx=f"{x(px):.1f}",
                    cy=f"{y(py):.1f}",
                    r=3,
                )
                for px, py in stretch
            ]
    return element("g", *lines, class_=f"{series.style} c{series.colour}")


def _end_labels(labelled: Sequence[Series], x: Scale, y: Scale) -> list[Html]:
    """Labels right of the last points, moved apart where they would cover each other."""
    ends = [(series, [value for _, value in series.points if value is not None]) for series in labelled]
    placed = sorted(((y(values[-1]), series) for series, values in ends if values), key=lambda pair: pair[0])
    parts, above = [], float("-inf")
    for at, series in placed:
        above = max(at, above + _LABEL_HEIGHT)
        place = {"x": f"{x.stop + 8:.1f}", "y": f"{above + 4:.1f}"}
        parts.append(element("text", series.end_label, **place, class_=f"end c{series.colour}"))
    return parts
