"""The frame of a line chart: its scales, grid, ticks and labels."""

from __future__ import annotations

from dataclasses import dataclass

from neox_train.monitoring.charts.scale import Scale, tick_labels, tick_values
from neox_train.monitoring.markup import Html, element

_TOP_MARGIN, _BOTTOM_MARGIN, _RIGHT_MARGIN = 30, 40, 14
_DIGIT_WIDTH = 7.2
"""Units that one character of a 12-unit label takes at most."""


@dataclass(frozen=True)
class Axes:
    """Both scales of a chart and the ticks on them."""

    x: Scale
    y: Scale
    x_ticks: list[float]
    y_ticks: list[float]

    @property
    def bottom(self) -> float:
        """Height of the x axis."""
        return self.y.start


def place_axes(
    x_range: tuple[float, float], y_range: tuple[float, float], *, width: int, height: int, end_label_length: int
) -> Axes:
    """Fit axes into ``width`` x ``height`` units, leaving room for tick labels and for labels at the lines' ends."""
    bottom = height - _BOTTOM_MARGIN
    y_ticks = tick_values(*y_range, max(4, int((bottom - _TOP_MARGIN) / 52)))
    left = 12 + _DIGIT_WIDTH * max((len(label) for label in tick_labels(y_ticks)), default=1)
    right = width - _RIGHT_MARGIN - (_DIGIT_WIDTH * end_label_length + 6 if end_label_length else 0)
    x_ticks = tick_values(*x_range, max(3, int((right - left) / 110)))
    return Axes(Scale(*x_range, left, right), Scale(*y_range, bottom, _TOP_MARGIN), x_ticks, y_ticks)


def draw_axes(axes: Axes, *, x_label: str, y_label: str, height: int) -> list[Html]:
    """Horizontal grid lines, both axes' tick labels, the x label below and the y label above."""
    left, right, bottom = f"{axes.x.start:.1f}", f"{axes.x.stop:.1f}", axes.bottom
    parts = []
    for tick, label in zip(axes.y_ticks, tick_labels(axes.y_ticks), strict=True):
        row = axes.y(tick)
        parts.append(element("line", x1=left, x2=right, y1=f"{row:.1f}", y2=f"{row:.1f}", class_="grid"))
        parts.append(element("text", label, x=f"{axes.x.start - 8:.1f}", y=f"{row + 4:.1f}", text_anchor="end"))
    for tick, label in zip(axes.x_ticks, tick_labels(axes.x_ticks), strict=True):
        column = f"{axes.x(tick):.1f}"
        parts.append(element("line", x1=column, x2=column, y1=bottom, y2=bottom + 4, class_="axis"))
        parts.append(element("text", label, x=column, y=bottom + 18, text_anchor="middle"))
    middle = f"{(axes.x.start + axes.x.stop) / 2:.1f}"
    return [
        *parts,
        element("line", x1=left, x2=right, y1=bottom, y2=bottom, class_="axis"),
        element("text", x_label, x=middle, y=height - 5, text_anchor="middle"),
        element("text", y_label, x=0, y=13) if y_label else Html(""),
    ]
