"""The page's head: what was trained, what came out, and the scores as bars beside the yardsticks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from neox_train.monitoring.markup import Html, element, join
from neox_train.monitoring.quantities import format_bytes, format_decimal, format_integer
from neox_train.monitoring.report.facts import RunFacts, mapping, number
from neox_train.monitoring.report.inputs import RunInputs


def write_lead(facts: Sequence[RunFacts], runs: Sequence[RunInputs]) -> Html:
    """The result in two sentences of plain words, for each text that runs were scored on."""
    scored = [fact for fact in facts if fact.bits_per_byte is not None]
    if not scored:
        done = sum(run.status in ("trained", "exported") for run in facts)
        count = f"{len(facts)} run{'s' if len(facts) != 1 else ''}"
        return element("p", f"{count}, {done} trained, none evaluated yet.", class_="lead")
    by_name = {run.name: run for run in runs}
    groups = _group_by_text(scored)
    return join([_write_best(group, by_name, is_only=len(groups) == 1) for group in groups])


def _group_by_text(scored: Sequence[RunFacts]) -> list[list[RunFacts]]:
    """Runs that were scored on the same text, together: bits per byte of other text do not compare."""
    groups: dict[tuple[str, ...], list[RunFacts]] = {}
    for fact in scored:
        groups.setdefault(fact.scored_on, []).append(fact)
    return list(groups.values())


def _write_best(group: Sequence[RunFacts], runs: Mapping[str, RunInputs], *, is_only: bool) -> Html:
    best = min(group, key=lambda fact: fact.bits_per_byte or 0.0)
    evaluation = runs[best.name].evaluation
    place = "" if is_only else f" of {evaluation.get('dataset')}"
    text: list[object] = [
        element("b", best.name),
        f" predicts held-out text{place} at {format_decimal(best.bits_per_byte)} bits per byte",
    ]
    if len(group) > 1:
        text.append(f", the best of {len(group)} {'evaluated runs' if is_only else 'runs evaluated on it'}")
    yardsticks = [
        f"{name} needs {format_decimal(value)}"
        for name, value in (("a unigram-token model", best.unigram_bits_per_byte), ("xz -9", best.xz_bits_per_byte))
        if value is not None
    ]
    text.append(". ")
    if yardsticks:
        size = format_bytes(number(evaluation, "bytes"))
        text.append(f"On the same {size} {' and '.join(yardsticks)}.")
    return element("p", *text, class_="lead")


def write_scores(facts: Sequence[RunFacts], runs: Sequence[RunInputs]) -> Html:
    """Bits per byte of every evaluated run and of the yardsticks, as bars."""
    by_name = {run.name: run for run in runs}
    groups = _group_by_text([fact for fact in facts if fact.bits_per_byte is not None])
    missing = [fact.name for fact in facts if fact.bits_per_byte is None]
    return element(
        "section",
        element("h2", "Held-out bits per byte"),
        element("p", "Fewer is better: how many bits each byte of unseen text costs.", class_="note"),
        [_write_group(group, by_name[group[0].name]) for group in groups],
        element("p", f"Not evaluated yet: {', '.join(missing)}.", class_="empty") if missing else None,
        class_="card",
        id="scores",
    )


def _write_group(facts: Sequence[RunFacts], run: RunInputs) -> Html:
    evaluation = run.evaluation
    rows: list[tuple[str, str, float]] = [(fact.name, f"c{fact.colour}", fact.bits_per_byte or 0.0) for fact in facts]
    first = facts[0]
    rows += [
        (name, "yard", value)
        for name, value in (("unigram tokens", first.unigram_bits_per_byte), ("xz -9", first.xz_bits_per_byte))
        if value is not None
    ]
    widest = max(value for _, _, value in rows) or 1.0
    bars = [
        join(
            [
                element("div", element("span", class_=f"dot {colour}"), name, class_="name"),
                element(
                    "div",
                    element("div", class_=f"bar {colour}", style=f"--w:{value / widest:.4f}"),
                    element("b", format_decimal(value)),
                    class_="track",
                ),
            ]
        )
        for name, colour, value in rows
    ]
    documents, size = number(evaluation, "documents"), format_integer(number(evaluation, "bytes"))
    count = f"{format_integer(documents)} document{'s' if documents != 1 else ''}"
    caption = f"Split {evaluation.get('split')} of dataset {evaluation.get('dataset')}: {count}, {size} bytes. "
    tasks = mapping(evaluation, "tasks")
    methods = [
        element("p", element("b", f"{title}. "), mapping(tasks, name).get("method"), class_="note")
        for name, title in (("held_out", "Model"), ("unigram", "Unigram"), ("xz", "xz -9"))
        if mapping(tasks, name).get("method")
    ]
    return element(
        "figure",
        element("div", bars, class_="bars"),
        element("figcaption", caption, evaluation.get("note"), style="margin-top:12px"),
        element("details", element("summary", "How this is measured"), methods, style="margin-top:8px"),
    )
