"""The resolved configurations: what differs between runs in view, every key folded."""

from __future__ import annotations

import json
from collections.abc import Sequence

from neox_train.monitoring.markup import Html, element
from neox_train.monitoring.report.facts import RunFacts
from neox_train.monitoring.report.inputs import RunInputs
from neox_train.monitoring.report.tables import write_row, write_table

_ABSENT = "not set"
_OWN_PLACES = ("save", "load", "log_dir", "tensorboard_dir")
"""Keys that name a run's own folders: they differ always and mean nothing."""


def write_configuration(pairs: Sequence[tuple[RunFacts, RunInputs]]) -> Html:
    """A table of the keys that differ, and one of all keys with the differing rows marked."""
    known = [(fact, run) for fact, run in pairs if run.config]
    if not known:
        body: list[object] = [element("p", "No run has a resolved configuration yet.", class_="empty")]
    else:
        keys = sorted({key for _, run in known for key in run.config})
        differing = find_differences([run for _, run in known])
        body = []
        if len(known) > 1:
            shown = (
                _write_table(known, differing, set())
                if differing
                else element("p", "The runs have equal configurations.", class_="empty")
            )
            body = [element("p", "Keys whose values differ between the runs.", class_="note"), shown]
        summary = element("summary", f"All {len(keys)} keys")
        body.append(element("details", summary, _write_table(known, keys, set(differing)), style="margin-top:12px"))
    return element("section", element("h2", "Configuration"), body, class_="card", id="configuration")


def find_differences(runs: Sequence[RunInputs]) -> list[str]:
    """Keys that do not have one and the same value in all runs, without the runs' own folders."""
    keys = sorted({key for run in runs for key in run.config} - set(_OWN_PLACES))
    return [key for key in keys if len({_show(run, key) for run in runs}) > 1]


def _write_table(pairs: Sequence[tuple[RunFacts, RunInputs]], keys: Sequence[str], marked: set[str]) -> Html:
    heads = [[element("span", class_=f"dot c{fact.colour}"), fact.name] for fact, _ in pairs]
    rows = [
        write_row(
            [element("code", key), *(element("code", _show(run, key)) for _, run in pairs)],
            class_="differs" if key in marked else None,
        )
        for key in keys
    ]
    return write_table(["Key", *heads], rows, class_="text")


def _show(run: RunInputs, key: str) -> str:
    return json.dumps(run.config[key], ensure_ascii=False, default=str) if key in run.config else _ABSENT
