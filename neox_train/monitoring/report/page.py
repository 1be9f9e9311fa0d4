"""The whole page, put together from its sections."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import neox_train
from neox_train.files import write_text
from neox_train.monitoring.markup import Html, element, join
from neox_train.monitoring.report.communication import write_communication
from neox_train.monitoring.report.configuration import write_configuration
from neox_train.monitoring.report.continuations import write_continuations
from neox_train.monitoring.report.curves import write_curves
from neox_train.monitoring.report.dataset import write_dataset
from neox_train.monitoring.report.facts import gather_facts, mapping
from neox_train.monitoring.report.inputs import ReportInputs, RunInputs
from neox_train.monitoring.report.memory import write_memory
from neox_train.monitoring.report.origin import write_origin
from neox_train.monitoring.report.parity import write_parity
from neox_train.monitoring.report.runs_table import write_runs
from neox_train.monitoring.report.style import STYLE
from neox_train.monitoring.report.summary import write_lead, write_scores

_SECTIONS = (
    ("scores", "Scores"),
    ("runs", "Runs"),
    ("training", "Training"),
    ("memory", "Memory"),
    ("parity", "Parity"),
    ("continuations", "Continuations"),
    ("datasets", "Data"),
    ("configuration", "Configuration"),
    ("provenance", "Provenance"),
)


def write_report(inputs: ReportInputs, path: Path, *, now: datetime | None = None) -> None:
    """Write the page to ``path`` atomically."""
    write_text(path, render_page(inputs, now=now))


def render_page(inputs: ReportInputs, *, now: datetime | None = None) -> str:
    """One self-contained HTML page: no script, no reference to anything outside itself."""
    facts = [gather_facts(run, index) for index, run in enumerate(inputs.runs)]
    pairs = list(zip(facts, inputs.runs, strict=True))
    title = f"Training report: {inputs.pipeline}"
    body = element(
        "body",
        element(
            "header",
            element("h1", title),
            element("p", _describe(inputs, now or datetime.now(UTC)), class_="meta"),
            write_lead(facts, inputs.runs),
            element("nav", [element("a", name, href=f"#{anchor}") for anchor, name in _SECTIONS]),
        ),
        element(
            "main",
            _write_problems(inputs),
            write_scores(facts, inputs.runs),
            write_runs(facts),
            write_curves(pairs),
            write_memory(pairs),
            write_communication(pairs),
            write_parity(pairs),
            write_continuations(pairs),
            element("div", [write_dataset(dataset) for dataset in inputs.datasets], id="datasets"),
            write_configuration(pairs),
            write_origin(pairs),
            element("footer", f"Written by neox-train {neox_train.__version__}. 1 GiB is 2^30 bytes."),
        ),
    )
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("title", title),
        element("style", Html(STYLE)),
    )
    return "<!DOCTYPE html>\n" + element("html", head, body, lang="en") + "\n"


def _describe(inputs: ReportInputs, now: datetime) -> str:
    runs = len(inputs.runs)
    datasets = ", ".join(dataset.name for dataset in inputs.datasets)
    hosts = sorted({str(host) for run in inputs.runs if (host := mapping(run.provenance, "machine").get("host"))})
    on = f" · submitted from {', '.join(hosts)}" if hosts else ""
    return f"{runs} run{'s' if runs != 1 else ''} · dataset {datasets}{on} · {now:%Y-%m-%d %H:%M UTC}"


def _write_problems(inputs: ReportInputs) -> Html | None:
    """Failures and damaged files, first of all: a reader must not take a partial page for a whole one."""
    items = [item for run in inputs.runs for item in _run_problems(run)]
    for dataset in inputs.datasets:
        items += [f"dataset {dataset.name}: {file} is damaged and was left out" for file in dataset.damaged]
        if dataset.failure:
            items.append(f"dataset {dataset.name}: {dataset.failure.get('sentence')}")
    if not items:
        return None
    return element(
        "section",
        element("h2", "Needs attention"),
        element("ul", [element("li", item) for item in items]),
        class_="card",
    )


def _run_problems(run: RunInputs) -> list[object]:
    problems: list[object] = [f"run {run.name}: {file} is damaged and was left out" for file in run.damaged]
    if run.failure:
        command = run.failure.get("command")
        sentence = f"run {run.name}, {run.failure.get('stage')}: {run.failure.get('sentence')}"
        again = element("div", "Continue with ", element("code", command)) if command else None
        problems.append(join([sentence, again]))
    return problems
