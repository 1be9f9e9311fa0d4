"""The line chart: well-formed SVG, lines inside the frame, labels that do not cover each other."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from itertools import pairwise

from neox_train.monitoring.charts.lines import LineChart, Mark, Series, draw_lines

WIDTH, HEIGHT = 400, 250


def draw(*series: Series, **options: object) -> ET.Element:
    chart = LineChart("d", "step", "loss", series, **options)  # type: ignore[arg-type]
    return ET.fromstring(draw_lines(chart, width=WIDTH, height=HEIGHT))


def places(svg: ET.Element) -> list[tuple[float, float]]:
    return [
        (float(x), float(y))
        for line in svg.iter("polyline")
        for x, y in (pair.split(",") for pair in line.attrib["points"].split())
    ]


def test_lines_stay_inside_the_frame():
    svg = draw(Series("a", [(step, 1 / step) for step in range(1, 200)], 0), Series("b", [(1, -3.0), (90, 8.0)], 1))
    assert svg.attrib["viewBox"] == f"0 0 {WIDTH} {HEIGHT}"
    assert len(places(svg)) == 201
    assert all(0 < x < WIDTH and 0 < y < HEIGHT for x, y in places(svg))


def test_higher_values_stand_higher_and_later_steps_further_right():
    (x1, y1), (x2, y2) = places(draw(Series("a", [(1, 2.0), (9, 5.0)], 0)))
    assert x1 < x2 and y1 > y2


def test_end_labels_do_not_cover_each_other():
    series = [Series(f"r{i}", [(0, 3.0), (5, 2.0 + i * 1e-4)], i, "dots", f"r{i} 2.000") for i in range(4)]
    labels = [text for text in draw(*series).iter("text") if text.attrib.get("class", "").startswith("end")]
    rows = sorted(float(label.attrib["y"]) for label in labels)
    assert len(rows) == 4
    assert rows[-1] <= HEIGHT - 30
    assert all(later - earlier >= 14 for earlier, later in pairwise(rows))


def test_marks_outside_the_steps_are_left_out():
    marks = [Mark(3, "attempt 2", 0), Mark(400, "attempt 3", 0)]
    svg = draw(Series("a", [(0, 1.0), (9, 2.0)], 0), marks=marks)
    shown = [group for group in svg.iter("g") if group.attrib["class"].startswith("mark")]
    assert [group.findtext("title") for group in shown] == ["attempt 2"]


def test_one_point_constant_lines_and_nothing_at_all_are_drawn():
    for series in (
        [Series("a", [(7, 2.0)], 0)],
        [Series("a", [(1, 0.0), (2, 0.0)], 0)],
        [Series("a", [(1, None)], 0)],
        [],
    ):
        assert draw(*series, from_zero=True).tag == "svg"
