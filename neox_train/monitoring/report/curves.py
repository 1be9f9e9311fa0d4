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
_LOSS = "loss (nats per token)"
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
    series = [line for fact, run in pairs for line in _loss_series(fact, run)]
    chart = LineChart("Training and validation loss of all runs", "step", _LOSS, series, _marks(pairs))
    smoothed = any(line.style == "faint" for line in series)
    caption = [
        "Lines: training loss, smoothed, with each step's own value faint behind it."
        if smoothed
        else "Lines: training loss.",
        "Circles: validation loss.",
        "Dashed verticals: restarts." if chart.marks else "",
    ]
    unlabelled = replace(chart, series=[replace(line, end_label=None) for line in series])
    return element(
        "figure",
        draw_lines(chart, width=1060, height=420, class_="wide"),
        draw_lines(unlabelled, width=400, height=320, class_="narrow"),
        element("figcaption", " ".join(caption)),
    )


def _loss_series(fact: RunFacts, run: RunInputs) -> list[Series]:
    points = _points(run.of_kind("train"), "loss")
    validation = _points(run.of_kind("validation"), "loss")
    last = next((y for _, y in reversed(validation) if y is not None), None)
    label = f"{_shorten(fact.name)} {format_decimal(last)}" if last is not None else None
    lines = []
    if len(points) >= _SMOOTHED_FROM:
        lines.append(Series(f"{fact.name}, training", points, fact.colour, "faint"))
        points = smooth_points(points, window=max(8, len(points) // 25))
    lines.append(Series(f"{fact.name}, training", points, fact.colour))
    return [*lines, Series(f"{fact.name}, validation", validation, fact.colour, "dots", label)]


def _write_multiples(pairs: _Pairs) -> Html:
    unit = "GPU" if any(fact.device == "cuda" for fact, _ in pairs) else "process"
    charts = [("Loss, second half", LineChart("Loss of all runs, second half", "step", _LOSS, _second_half(pairs)))]
    for title, y_label, key in (
        ("Throughput", f"tokens/s per {unit}", "tokens_per_second_per_gpu"),
        ("Learning rate", "", "lr"),
        ("Gradient norm", "norm before clipping", "grad_norm"),
    ):
        series = [Series(fact.name, _points(run.of_kind("train"), key), fact.colour) for fact, run in pairs]
        charts.append((title, LineChart(f"{title} of all runs", "step", y_label, series, from_zero=True)))
    marks = _marks(pairs)
    figures = [
        element("figure", element("h3", title), draw_lines(replace(chart, marks=marks), width=440, height=260))
        for title, chart in charts
        if any(y is not None for line in chart.series for _, y in line.points)
    ]
    return element("div", figures, class_="multiples")


def _second_half(pairs: _Pairs) -> list[Series]:
    """The loss where runs part: the first half's fall would press their difference flat."""
    lines = [line for fact, run in pairs for line in _loss_series(fact, run) if line.style != "faint"]
    middle = max((x for line in lines for x, _ in line.points), default=0.0) / 2
    return [replace(line, points=[p for p in line.points if p[0] >= middle], end_label=None) for line in lines]


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


def _shorten(name: str) -> str:
    return name if len(name) <= 16 else name[:15] + "…"
