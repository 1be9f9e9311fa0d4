"""The memory estimate of each run, part by part, above the peak that was measured."""

from __future__ import annotations

from collections.abc import Sequence

from neox_train.monitoring.markup import Html, element, join
from neox_train.monitoring.quantities import UNKNOWN, format_gib, format_percent, is_number
from neox_train.monitoring.report.facts import RunFacts, mapping, number
from neox_train.monitoring.report.inputs import RunInputs
from neox_train.monitoring.report.tables import write_row, write_table

_PALETTE = 8


def write_memory(pairs: Sequence[tuple[RunFacts, RunInputs]]) -> Html:
    """Stacked bars of the estimate, the measured peak below each, and the same figures as a table."""
    known = [(fact, run) for fact, run in pairs if fact.estimated_gib is not None or fact.measured_gib is not None]
    if not known:
        body: list[object] = [element("p", "No run has a memory estimate yet.", class_="empty")]
    else:
        names = part_names([run for _, run in known])
        widest = max(max(fact.estimated_gib or 0.0, fact.measured_gib or 0.0) for fact, _ in known)
        legend = [element("li", element("i", class_=f"p{index % _PALETTE}"), name) for index, name in enumerate(names)]
        body = [
            element("ul", legend, class_="legend"),
            element("div", [_write_bars(fact, run, names, widest or 1.0) for fact, run in known], class_="bars wordy"),
            element("details", element("summary", "Figures"), _write_table(known, names), style="margin-top:14px"),
        ]
    text = "Estimate before the start (coloured by part) and measured peak (plain) of the fullest process."
    return element(
        "section",
        element("h2", "Memory: estimate against measured"),
        element("p", text, class_="note"),
        body,
        class_="card",
        id="memory",
    )


def part_names(runs: Sequence[RunInputs]) -> list[str]:
    """Names of the estimate's parts over all runs, the biggest first."""
    totals: dict[str, float] = {}
    for run in runs:
        for name, value in _parts(run).items():
            totals[name] = totals.get(name, 0.0) + value
    return sorted((name for name, total in totals.items() if total > 0), key=lambda name: -totals[name])


def _parts(run: RunInputs) -> dict[str, float]:
    parts = mapping(run.memory, "parts_gib")
    return {name.replace("_", " "): value for name, value in parts.items() if is_number(value)}


def _write_bars(fact: RunFacts, run: RunInputs, names: Sequence[str], widest: float) -> Html:
    parts = _parts(run)
    total = sum(parts.values())
    segments = [
        element(
            "i",
            class_=f"p{index % _PALETTE}",
            style=f"width:{100 * parts[name] / total:.2f}%",
            title=f"{name}: {format_gib(parts[name])}",
        )
        for index, name in enumerate(names)
        if parts.get(name) and total
    ]
    estimate = _write_track(fact.estimated_gib, widest, "estimate", "", segments)
    error = f", estimate {format_percent(fact.memory_error, signed=True)}" if fact.memory_error is not None else ""
    measured = _write_track(fact.measured_gib, widest, f"measured{error}", f" low c{fact.colour}", [])
    budget = number(run.memory, "budget_gib")
    name = element(
        "div",
        element("span", class_=f"dot c{fact.colour}"),
        fact.name,
        element("span", f"of {format_gib(budget)}", class_="meta") if budget else None,
        element("span", "uncalibrated", class_="meta") if run.memory.get("calibrated") is False else None,
        element("span", "forced past the gate", class_="meta") if _is_forced(run) else None,
        class_="name",
    )
    return join([name, element("div", estimate, measured)])


def _write_track(value: float | None, widest: float, what: str, class_: str, segments: Sequence[Html]) -> Html:
    if value is None:
        return element("div", element("span", f"{what}: not known yet", class_="meta"), class_="track")
    width = f"--w:{value / widest:.4f}"
    label = [element("b", format_gib(value)), element("span", what, class_="meta")]
    return element("div", element("div", segments, class_=f"bar{class_}", style=width), label, class_="track")


def _write_table(pairs: Sequence[tuple[RunFacts, RunInputs]], names: Sequence[str]) -> Html:
    rows = [write_row([name, *(_decimal(_parts(run).get(name)) for _, run in pairs)]) for name in names]
    totals = [
        ["estimate", *(_decimal(fact.estimated_gib) for fact, _ in pairs)],
        ["measured peak", *(_decimal(fact.measured_gib) for fact, _ in pairs)],
        ["budget", *(_decimal(number(run.memory, "budget_gib")) for _, run in pairs)],
        ["verdict", *(_word_verdict(run) for _, run in pairs)],
    ]
    rows += [write_row(cells, heading=True) for cells in totals]
    return write_table(["GiB a process", *(fact.name for fact, _ in pairs)], rows)


def _word_verdict(run: RunInputs) -> str:
    verdict = str(run.memory.get("verdict", UNKNOWN)).replace("_", " ")
    return f"{verdict}, forced" if _is_forced(run) else verdict


def _is_forced(run: RunInputs) -> bool:
    """Whether the gate refused the run and ``--force`` launched it."""
    return run.memory.get("forced") is True and run.memory.get("verdict") == "does_not_fit"


def _decimal(value: float | None) -> str:
    return f"{value:.4f}" if value is not None else UNKNOWN
