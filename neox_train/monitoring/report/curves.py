"""Loss, throughput, learning rate and gradient norm over training steps, all runs in each chart."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from neox_train.monitoring.charts.lines import LineChart, Mark, Series, draw_lines
from neox_train.monitoring.charts.series import Point, smooth_points
from neox_train.monitoring.markup import Html, element
from neox_train.monitoring.quantities import format_decimal, is_number
from neox_train.monitoring.report.facts import RunFacts
from neox_train.monitoring.report.inputs import Json, RunInputs
from neox_train.monitoring.report.restarts import find_restarts

_SMOOTHED_FROM = 60
_Pairs = Sequence[tuple[RunFacts, RunInputs]]


def write_curves(pairs: _Pairs) -> Html:
    """The loss chart across the page's width, then small charts of what explains it."""
    trained = [(fact, run) for fact, run in pairs if run.of_kind("train")]
    if not trained:
        body: list[object] = [element("p", "No run has trained yet.", class_="empty")]
    else:
        body = [_write_legend(trained), _write_loss(trained), _write_multiples(trained)]
    return element("section", element("h2", "Training"), body, class_="card", id="training")


def _write_legend(pairs: _Pairs) -> Html:
    items = [element("li", element("span", class_=f"dot c{fact.colour}"), fact.name) for fact, _ in pairs]
    return element("ul", items, class_="legend")


def _write_loss(pairs: _Pairs) -> Html:
    series: list[Series] = []
    smoothed = False
    for fact, run in pairs:
        points = _points(run.of_kind("train"), "loss")
        validation = _points(run.of_kind("validation"), "loss")
        if len(points) >= _SMOOTHED_FROM:
            smoothed = True
            series.append(Series(f"{fact.name}, training", points, fact.colour, "faint"))
            points = smooth_points(points, window=max(8, len(points) // 25))
        series.append(Series(f"{fact.name}, training", points, fact.colour))
        last = next((y for _, y in reversed(validation) if y is not None), None)
        label = f"{fact.name[:16]} {format_decimal(last)}" if last is not None else None
        series.append(Series(f"{fact.name}, validation", validation, fact.colour, "dots", label))
    marks = _marks(pairs)
    chart = LineChart("Training and validation loss of all runs", "step", "loss (nats per token)", series, marks)
    caption = "Lines: training loss"
    caption += ", smoothed, with each step's own value faint behind it. " if smoothed else ". "
    caption += "Circles: validation loss, its last value at the right. "
    caption += "Dashed verticals: restarts. " if marks else ""
    unlabelled = replace(chart, series=[replace(line, end_label=None) for line in series])
    return element(
        "figure",
        draw_lines(chart, width=1060, height=420, class_="wide"),
        draw_lines(unlabelled, width=400, height=320, class_="narrow"),
        element("figcaption", caption),
    )


def _write_multiples(pairs: _Pairs) -> Html:
    unit = "GPU" if any(fact.device == "cuda" for fact, _ in pairs) else "process"
    charts = [
        ("Throughput", f"tokens/s per {unit}", "tokens_per_second_per_gpu", True),
        ("Learning rate", "learning rate", "lr", True),
        ("Gradient norm", "norm before clipping", "grad_norm", True),
    ]
    figures = []
    for title, y_label, key, from_zero in charts:
        series = [Series(fact.name, _points(run.of_kind("train"), key), fact.colour) for fact, run in pairs]
        if any(y is not None for line in series for _, y in line.points):
            chart = LineChart(f"{title} of all runs", "step", y_label, series, _marks(pairs), from_zero)
            figures.append(element("figure", element("h3", title), draw_lines(chart, width=400, height=250)))
    return element("div", figures, class_="multiples")


def _marks(pairs: _Pairs) -> list[Mark]:
    return [
        Mark(restart.step, f"{fact.name}: {restart.text}", fact.colour)
        for fact, run in pairs
        for restart in find_restarts(run)
    ]


def _points(records: Sequence[Json], key: str) -> list[Point]:
    points: list[Point] = []
    for record in records:
        step, value = record.get("step"), record.get(key)
        if is_number(step):
            points.append((step, value if is_number(value) else None))
    return points
