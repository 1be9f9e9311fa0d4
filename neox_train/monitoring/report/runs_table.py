"""The table of runs: what was trained, how well, how fast, in how much memory and time."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from neox_train.monitoring.markup import Html, element
from neox_train.monitoring.quantities import (
    UNKNOWN,
    format_count,
    format_decimal,
    format_gib,
    format_integer,
    format_percent,
    format_seconds,
)
from neox_train.monitoring.report.facts import RunFacts

Cell = Callable[[RunFacts], tuple[object, list[str]]]
"""The value of a cell and the small lines below it."""
_NOTE = (
    "Tokens/s and MFU are medians of the training steps alone: validation and saving are left out. Wall time counts "
    "from the ranks' start to their end, without the queue. Bold: the lowest on the same text."
)


def write_runs(facts: Sequence[RunFacts]) -> Html:
    """One row a run; on a narrow screen each row becomes a list of labelled values."""
    unit = "GPU" if any(fact.device == "cuda" for fact in facts) else "process"
    columns: list[tuple[str, Cell]] = [
        ("Parameters", lambda fact: (format_count(fact.parameters), [])),
        ("Tokens", lambda fact: (format_count(fact.tokens), [])),
        ("Steps", _steps),
        ("Validation loss", _losses),
        ("Bits per byte", _bits_per_byte),
        (f"Tokens/s per {unit}", lambda fact: (format_integer(fact.tokens_per_second), _mfu(fact))),
        (f"Peak memory per {unit}", _memory),
        ("Wall time", _time),
        ("Attempts", _attempts),
    ]
    best = {
        "Validation loss": _lowest(facts, lambda fact: fact.validation_loss, lambda fact: fact.dataset),
        "Bits per byte": _lowest(facts, lambda fact: fact.bits_per_byte, lambda fact: fact.scored_on),
    }
    head = element("tr", element("th", "Run"), [element("th", name) for name, _ in columns])
    rows = [_write_row(fact, columns, best) for fact in facts]
    return element(
        "section",
        element("h2", "Runs"),
        element(
            "div",
            element("table", element("thead", head), element("tbody", rows), class_="runs"),
            class_="scroll",
        ),
        element("p", _NOTE, class_="note"),
        class_="card",
        id="runs",
    )


def _losses(fact: RunFacts) -> tuple[object, list[str]]:
    tested = [] if fact.test_loss is None else [f"test {format_decimal(fact.test_loss)}"]
    return format_decimal(fact.validation_loss), tested


def _write_row(fact: RunFacts, columns: Sequence[tuple[str, Cell]], best: dict[str, set[str]]) -> Html:
    failed = fact.status.startswith("failed")
    title = element(
        "th",
        element("span", class_=f"dot c{fact.colour}"),
        fact.name,
        " ",
        element("span", fact.status, class_="badge bad" if failed else "badge"),
        element("small", fact.architecture) if fact.architecture else None,
        element("small", fact.parallelism) if fact.parallelism else None,
        scope="row",
    )
    cells = []
    for name, cell in columns:
        value, extra = cell(fact)
        strong = "best" if fact.name in best.get(name, ()) else None
        shown = element("span", element("span", value, class_=strong), [element("small", line) for line in extra])
        cells.append(element("td", shown, data_label=name))
    return element("tr", title, cells)


def _steps(fact: RunFacts) -> tuple[object, list[str]]:
    if fact.steps is not None and fact.train_iters is not None and fact.steps < fact.train_iters:
        return format_integer(fact.steps), [f"of {format_integer(fact.train_iters)}"]
    return format_integer(fact.steps), []


def _bits_per_byte(fact: RunFacts) -> tuple[object, list[str]]:
    if fact.bits_per_byte is None:
        return UNKNOWN, ["not evaluated yet"]
    yardsticks = (("unigram", fact.unigram_bits_per_byte), ("xz", fact.xz_bits_per_byte))
    beside = [f"{name} {format_decimal(value, 2)}" for name, value in yardsticks if value is not None]
    return format_decimal(fact.bits_per_byte), beside


def _mfu(fact: RunFacts) -> list[str]:
    return [f"MFU {format_percent(fact.mfu)}"] if fact.mfu is not None else []


def _memory(fact: RunFacts) -> tuple[object, list[str]]:
    if fact.measured_gib is None and fact.estimated_gib is None:
        return UNKNOWN, []
    estimate = [f"estimate {format_gib(fact.estimated_gib)}"]
    if fact.memory_error is not None:
        estimate.append(f"error {format_percent(fact.memory_error, signed=True)}")
    return format_gib(fact.measured_gib), estimate


def _time(fact: RunFacts) -> tuple[object, list[str]]:
    steps = [f"steps {format_seconds(fact.training_seconds)}"] if fact.training_seconds is not None else []
    return format_seconds(fact.wall_seconds), steps


def _attempts(fact: RunFacts) -> tuple[object, list[str]]:
    if not fact.attempts:
        return UNKNOWN, []
    restarts = len(fact.attempts) - 1
    return len(fact.attempts), [f"{restarts} restart{'s' if restarts != 1 else ''}"] if restarts else []


def _lowest(
    facts: Sequence[RunFacts], figure: Callable[[RunFacts], float | None], text: Callable[[RunFacts], object]
) -> set[str]:
    """The best run on each text that several runs were measured on."""
    groups: dict[object, list[tuple[float, str]]] = {}
    for fact in facts:
        if (value := figure(fact)) is not None:
            groups.setdefault(text(fact), []).append((value, fact.name))
    return {min(known)[1] for known in groups.values() if len(known) > 1}
