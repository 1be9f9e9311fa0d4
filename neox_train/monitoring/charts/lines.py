"""A line chart of several series over training steps, with marked steps and labels at the lines' ends."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from neox_train.monitoring.charts.axes import Axes, draw_axes, place_axes
from neox_train.monitoring.charts.scale import value_range
from neox_train.monitoring.charts.series import Point, runs_of_points, thin_points
from neox_train.monitoring.markup import Html, element

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


def draw_lines(chart: LineChart, *, width: int, height: int, class_: str = "chart") -> Html:
    """The chart as an SVG of ``width`` x ``height`` units that scales with its container."""
    labelled = [series for series in chart.series if series.end_label]
    axes = place_axes(
        _steps_range(chart),
        value_range((y for line in chart.series for _, y in line.points if y is not None), from_zero=chart.from_zero),
        width=width,
        height=height,
        end_label_length=max((len(series.end_label or "") for series in labelled), default=0),
    )
    return element(
        "svg",
        element("title", chart.description),
        draw_axes(axes, x_label=chart.x_label, y_label=chart.y_label, height=height),
        [_draw_mark(mark, axes) for mark in chart.marks if axes.x.low <= mark.x <= axes.x.high],
        [_draw_series(series, axes) for series in chart.series],
        _end_labels(labelled, axes),
        viewbox=f"0 0 {width} {height}",
        class_=class_,
        role="img",
        aria_label=chart.description,
    )


def _steps_range(chart: LineChart) -> tuple[float, float]:
    steps = [x for series in chart.series for x, y in series.points if y is not None]
    low, high = (min(steps), max(steps)) if steps else (0.0, 1.0)
    return (0.0 if low < 0.1 * high else low), (high if high > low else high + 1)


def _draw_mark(mark: Mark, axes: Axes) -> Html:
    at, top = f"{axes.x(mark.x):.1f}", axes.y.stop
    line = element("line", x1=at, x2=at, y1=top, y2=axes.bottom)
    flag = element("path", d=f"M{at} {top}l5 -5h-10z")
    return element("g", element("title", mark.text), line, flag, class_=f"mark c{mark.colour}")


def _draw_series(series: Series, axes: Axes) -> Html:
    x, y = axes.x, axes.y
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


def _end_labels(labelled: Sequence[Series], axes: Axes) -> list[Html]:
    """Labels right of the last points, moved apart where they would cover each other."""
    ends = [(series, [value for _, value in series.points if value is not None]) for series in labelled]
    placed = sorted(((axes.y(values[-1]), series) for series, values in ends if values), key=lambda pair: pair[0])
    rows = _spread([at for at, _ in placed], axes.bottom)
    return [
        element(
            "text", series.end_label, x=f"{axes.x.stop + 8:.1f}", y=f"{row + 4:.1f}", class_=f"end c{series.colour}"
        )
        for row, (_, series) in zip(rows, placed, strict=True)
    ]


def _spread(rows: Sequence[float], bottom: float) -> list[float]:
    """Move sorted rows down until none covers the one above, then up until the last is above ``bottom``."""
    moved: list[float] = []
    for row in rows:
        moved.append(max(row, moved[-1] + _LABEL_HEIGHT) if moved else row)
    limit = bottom
    for index in reversed(range(len(moved))):
        moved[index] = min(moved[index], limit)
        limit = moved[index] - _LABEL_HEIGHT
    return moved
