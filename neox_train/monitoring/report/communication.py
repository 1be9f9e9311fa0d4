"""What ranks sent each other in each run: calls and bytes a step, and how long computing waited for them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from neox_train.monitoring.markup import Html, element
from neox_train.monitoring.quantities import UNKNOWN, format_bytes, format_decimal, format_percent, is_number
from neox_train.monitoring.report.facts import RunFacts
from neox_train.monitoring.report.inputs import RunInputs
from neox_train.monitoring.report.tables import write_table

_HEAD = (
    "Run",
    "Group",
    "Collective",
    "Formats",
    "Calls a step",
    "Sent a step",
    "Waited, of the step",
    "Bus GB/s",
    "Overlapped",
)


@dataclass(frozen=True, kw_only=True)
class Exchange:
    """One kind of collective in one group over a whole run, on the first rank."""

    group: str
    kind: str
    dtypes: tuple[str, ...]
    calls_per_step: float
    wire_bytes_per_step: float
    exposed_fraction: float
    """Of the steps' time."""
    bus_gb_per_second: float | None
    overlap_fraction: float | None


def write_communication(pairs: Sequence[tuple[RunFacts, RunInputs]]) -> Html | None:
    """A table of every run with more than one process; nothing where no run has."""
    rows = [
        [
            fact.name,
            one.group,
            one.kind,
            ", ".join(one.dtypes),
            format_decimal(one.calls_per_step, 1),
            format_bytes(one.wire_bytes_per_step),
            format_percent(one.exposed_fraction),
            format_decimal(one.bus_gb_per_second) if one.bus_gb_per_second is not None else UNKNOWN,
            format_percent(one.overlap_fraction),
        ]
        for fact, run in pairs
        for one in list_exchanges(run)
    ]
    if not rows:
        return None
    text = (
        "By the first process. Sent: bytes of the bandwidth-optimal ring. Waited: time in which computing stood still. "
        "Overlapped: of the time from a call to the end of its wait, the part that computing went on in."
    )
    return element(
        "section",
        element("h2", "Communication"),
        element("p", text, class_="note"),
        write_table(_HEAD, rows),
        class_="card",
        id="communication",
    )


def list_exchanges(run: RunInputs) -> list[Exchange]:
    """Every group and kind that the run's metrics name, the most bytes first."""
    steps, seconds, before = 0.0, 0.0, 0.0
    totals: dict[str, dict[str, Any]] = {}
    for record in run.of_kind("train"):
        step, per_step = record.get("step"), record.get("seconds_per_step")
        if not (is_number(step) and is_number(per_step)):
            continue
        if isinstance(record.get("communication"), dict):
            steps, seconds = steps + step - before, seconds + per_step * (step - before)
            for name, one in record["communication"].items():
                _add(totals.setdefault(name, {"dtypes": set()}), one)
        before = step
    exchanges = [_sum_up(name, total, steps, seconds) for name, total in totals.items() if steps > 0 and seconds > 0]
    return sorted(exchanges, key=lambda one: -one.wire_bytes_per_step)


def _add(total: dict[str, Any], one: dict[str, Any]) -> None:
    for key in ("calls", "wire_bytes", "exposed_seconds", "in_flight_seconds"):
        if is_number(one.get(key)):
            total[key] = total.get(key, 0.0) + one[key]
    total["dtypes"] |= set(one.get("dtypes", ()))


def _sum_up(name: str, total: dict[str, Any], steps: float, seconds: float) -> Exchange:
    group, _, kind = name.partition(".")
    exposed, in_flight = total.get("exposed_seconds", 0.0), total.get("in_flight_seconds")
    return Exchange(
        group=group,
        kind=kind,
        dtypes=tuple(sorted(total["dtypes"])),
        calls_per_step=total.get("calls", 0.0) / steps,
        wire_bytes_per_step=total.get("wire_bytes", 0.0) / steps,
        exposed_fraction=exposed / seconds,
        bus_gb_per_second=total.get("wire_bytes", 0.0) / in_flight / 1e9 if in_flight else None,
        overlap_fraction=max(0.0, 1 - exposed / in_flight) if in_flight else None,
    )
