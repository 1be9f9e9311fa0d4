"""What the models write: held-out prompts and each run's sampled continuation of them."""

from __future__ import annotations

from collections.abc import Sequence

from neox_train.monitoring.markup import Html, element
from neox_train.monitoring.report.facts import RunFacts, mapping
from neox_train.monitoring.report.inputs import Json, RunInputs

_Pairs = Sequence[tuple[RunFacts, RunInputs]]


def write_continuations(pairs: _Pairs) -> Html:
    """Texts of all runs, those of the same prompt side by side."""
    prompts: dict[tuple[object, object], list[tuple[RunFacts, Json]]] = {}
    settings: set[str] = set()
    for fact, run in pairs:
        task = mapping(mapping(run.evaluation, "tasks"), "continuations")
        texts = task.get("texts")
        for text in texts if isinstance(texts, list) else []:
            if isinstance(text, dict):
                prompts.setdefault((run.dataset, text.get("prompt")), []).append((fact, text))
                settings.add(f"temperature {task.get('temperature')}, seed {task.get('seed')}")
    if not prompts:
        body: list[object] = [element("p", "No run has been evaluated with continuations yet.", class_="empty")]
    else:
        note = (
            f"Sampled from the whole distribution ({'; '.join(sorted(settings))}) after prompts taken from held-out "
            "documents. Grey: the prompt. Marked: what the model wrote."
        )
        body = [
            element("p", note, class_="note"),
            element("div", [_write_prompt(texts) for texts in prompts.values()], class_="texts"),
        ]
    return element("section", element("h2", "Continuations"), body, class_="card", id="continuations")


def _write_prompt(texts: Sequence[tuple[RunFacts, Json]]) -> Html:
    truth = texts[0][1].get("real_continuation")
    real = element("div", element("pre", truth), class_="sample")
    return element(
        "div",
        element("div", [_write_text(fact, text) for fact, text in texts], class_="pair"),
        element("details", element("summary", "What the document really says"), real, class_="truth"),
    )


def _write_text(fact: RunFacts, text: Json) -> Html:
    return element(
        "article",
        element("div", element("span", class_=f"dot c{fact.colour}"), element("b", fact.name)),
        element(
            "pre",
            element("span", text.get("prompt"), class_="prompt"),
            element("mark", text.get("continuation"), class_=f"c{fact.colour}"),
            element("span", "end of document", class_="badge") if text.get("ended") else None,
        ),
        class_="sample",
    )
