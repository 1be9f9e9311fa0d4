"""How far the exported model's logits are from the trained model's, on a logarithmic ruler."""

from __future__ import annotations

import math
from collections.abc import Sequence

from neox_train.monitoring.markup import Html, element, join
from neox_train.monitoring.quantities import UNKNOWN
from neox_train.monitoring.report.facts import RunFacts, number
from neox_train.monitoring.report.inputs import RunInputs

_LOW, _HIGH = 1e-8, 1e0


def write_parity(pairs: Sequence[tuple[RunFacts, RunInputs]]) -> Html:
    """One ruler a run: largest difference filled, mean hollow, tolerance dashed."""
    known = [(fact, run) for fact, run in pairs if run.parity]
    if not known:
        body: list[object] = [element("p", "No run is exported yet.", class_="empty")]
    else:
        body = [element("div", [_write_row(fact, run) for fact, run in known], class_="bars")]
    names = ", ".join(dict.fromkeys(str(run.parity["split"]) for _, run in known if run.parity.get("split")))
    text = (
        "Logits of the trained weights against those of the Hugging Face export on the same text"
        f"{f' (split: {names})' if names else ''}. "
        f"Filled: largest difference; hollow: mean; dashed: tolerance. Ruler from {_LOW:g} to {_HIGH:g}, logarithmic."
    )
    return element(
        "section",
        element("h2", "Export parity"),
        element("p", text, class_="note"),
        body,
        class_="card",
        id="parity",
    )


def _write_row(fact: RunFacts, run: RunInputs) -> Html:
    largest = number(run.parity, "max_abs_difference")
    mean = number(run.parity, "mean_abs_difference")
    tolerance = number(run.parity, "tolerance")
    points = [
        element("u", style=f"left:{_place(tolerance):.1f}%", title=f"tolerance {tolerance:g}") if tolerance else None,
        _write_point(mean, "hollow ", fact, "mean"),
        _write_point(largest, "", fact, "largest"),
    ]
    passed = run.parity.get("within_tolerance") is True
    figure = UNKNOWN if largest is None else f"{largest:.1e}" if largest else "0"
    verdict = element("b", figure, class_="good" if passed else "bad", title="largest difference")
    name = element("div", element("span", class_=f"dot c{fact.colour}"), fact.name, class_="name")
    ruler = element("div", points, class_="ruler")
    return join([name, element("div", ruler, verdict, class_="track")])


def _write_point(value: float | None, class_: str, fact: RunFacts, what: str) -> Html | None:
    if value is None:
        return None
    return element(
        "i", class_=f"{class_}c{fact.colour}", style=f"left:{_place(value):.1f}%", title=f"{what} {value:.2e}"
    )


def _place(value: float) -> float:
    """Percent along the ruler; values beyond its ends stand at them."""
    clipped = min(max(value, _LOW), _HIGH)
    return 100 * (math.log10(clipped) - math.log10(_LOW)) / (math.log10(_HIGH) - math.log10(_LOW))
