"""The page: well-formed, self-contained, true to the files, calm about what is missing, safe against any text."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from html.parser import HTMLParser
from pathlib import Path

import pytest

from neox_train.config.layout import DatasetFolder, RunFolder
from neox_train.files import make_folder, read_json, write_json
from neox_train.monitoring.report.facts import ran_seconds
from neox_train.monitoring.report.inputs import RunInputs, read_inputs
from neox_train.monitoring.report.page import render_page
from neox_train.monitoring.report.restarts import find_restarts
from tests.monitoring.report.results_builder import DATASET, build_results

NOW = datetime(2025, 10, 9, 12, 0, tzinfo=UTC)
RUNS = {"serial": DATASET, "parallel": DATASET}
CHILDLESS = {"meta", "line", "path", "circle", "polyline"}


class Page(HTMLParser):
    """Checks nesting, and collects tags, attributes and visible text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag in CHILDLESS
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if "style" not in self.open:
            self.words.append(data)

    @property
    def text(self) -> str:
        return "".join(self.words)

    def count(self, tag: str) -> int:
        return sum(name == tag for name, _ in self.tags)


def render(results: Path, runs: dict[str, str] = RUNS) -> str:
    return render_page(read_inputs("demo.yaml", runs, results), now=NOW)


@pytest.fixture
def results(tmp_path: Path) -> Path:
    return build_results(tmp_path)


def test_the_page_is_whole_and_refers_to_nothing_outside(results: Path):
    text = render(results)
    page = Page(text)
    assert not {"script", "img", "link", "iframe", "object"} & {tag for tag, _ in page.tags}
    links = [value for _, attributes in page.tags for key, value in attributes.items() if key in ("href", "src")]
    assert links and all(link is not None and link.startswith("#") for link in links)
    anchors = {attributes["id"] for _, attributes in page.tags if "id" in attributes}
    assert {link[1:] for link in links if link} <= anchors
    assert not re.search(r"https?://|url\(|@import", text)


def test_the_figures_are_those_of_the_files(results: Path):
    text = Page(render(results)).text
    evaluation = read_json(RunFolder.of(results, "parallel").evaluation)
    best = evaluation["tasks"]["held_out"]["bits_per_byte"]
    assert f"parallel predicts held-out text at {best:.3f} bits per byte, the best of 2 evaluated runs" in text
    assert "On the same 198 kB a unigram-token model needs 2.731 and xz -9 needs 1.842." in text
    for figure in (
        "7.09M",
        "1.23M",
        "3.520",
        "3.460",
        "0.74 GiB",
        "1 min 48 s",
        "1 restart",
        "6 layers × 256, 8 heads",
    ):
        assert figure in text
    memory = read_json(RunFolder.of(results, "serial").memory_json)["total_gib"]
    assert f"error +{100 * (memory / 0.742 - 1):.1f}\u202f%" in text
    assert "Split test of dataset stdlib: 28 documents" in text
    assert "0123456789ab" in text and "torch 2.13.0" in text


def test_the_error_of_the_estimate_is_of_what_was_measured(results: Path):
    file = RunFolder.of(results, "serial").memory_json
    write_json(file, {**read_json(file), "measurable_gib": 0.749})
    assert f"error +{100 * (0.749 / 0.742 - 1):.1f}\u202f%" in render(results)


def test_a_run_that_was_forced_past_the_gate_says_so(results: Path):
    assert "forced" not in Page(render(results)).text
    file = RunFolder.of(results, "serial").memory_json
    write_json(file, {**read_json(file), "verdict": "does_not_fit", "forced": True})
    text = Page(render(results)).text
    assert "forced past the gate" in text and "does not fit, forced" in text


def test_scores_on_different_text_are_not_compared(results: Path):
    run = RunFolder.of(results, "parallel")
    evaluation = read_json(run.evaluation)
    write_json(run.evaluation, {**evaluation, "dataset": "other"})
    text = render(results, {"serial": DATASET, "parallel": "other"})
    assert "the best of" not in text
    for name in ("serial", "parallel"):
        assert f"<b>{name}</b> predicts held-out text of" in text
    assert 'class="best"' not in text
    assert 'class="best"' in render(results)


def test_parity_names_the_split_it_was_measured_on(results: Path):
    run = RunFolder.of(results, "serial")
    write_json(run.parity, {**read_json(run.parity), "split": "train"})
    text = Page(render(results, {"serial": DATASET})).text
    assert "on the same text (split: train)" in text and "validation text" not in text


def test_the_queue_is_no_part_of_the_wall_time(results: Path):
    run = RunFolder.of(results, "serial")
    queued = {"number": 1, "submitted": 0.0, "started": 7200.0, "ended": 7800.0, "state": "finished"}
    write_json(run.ledger, {"attempts": [queued]})
    text = Page(render(results, {"serial": DATASET})).text
    assert "2 h 00 min" in text and "10 min 00 s" in text
    requeued = {**queued, "resumed": 90_000.0, "ended": 90_060.0, "starts": [{"began": 7200.0, "ended": 7800.0}]}
    assert ran_seconds(requeued) == 660.0
    assert ran_seconds({**queued, "ended": None}) is None and ran_seconds({"starts": True}) is None


def test_restarts_are_marked_with_their_reason(results: Path):
    text = Page(render(results)).text
    assert "parallel: attempt 2 goes on at step 181; the one before ended: the launcher was killed" in text


def test_a_restart_keeps_its_number_where_an_attempt_before_it_did_no_step():
    attempts = [
        {"number": 1, "first_step": 1, "reason": "killed"},
        {"number": 2, "first_step": None, "reason": "no node"},
        {"number": 3, "first_step": 41},
    ]
    (restart,) = find_restarts(RunInputs("serial", "stdlib", ledger={"attempts": attempts}))
    assert restart.text == "attempt 3 goes on at step 41; the one before ended: no node"


def test_only_differing_keys_are_in_view(results: Path):
    page = Page(render(results))
    marked = [attributes for tag, attributes in page.tags if tag == "tr" and attributes.get("class") == "differs"]
    assert len(marked) == 1
    assert page.text.count("gpt_j_residual") == 2 and page.text.count("rotary_pct") == 1


def test_texts_and_names_never_become_markup(results: Path):
    run = RunFolder.of(results, "serial")
    evil = '</pre><script>alert("x")</script><img src=http://example.org onerror=a>'
    evaluation = read_json(run.evaluation)
    for text in evaluation["tasks"]["continuations"]["texts"]:
        text.update(prompt=evil, continuation=evil, real_continuation=evil)
    evaluation.update(note=evil, split=evil)
    write_json(run.evaluation, evaluation)
    write_json(run.failure, {"stage": evil, "sentence": evil, "command": evil})
    write_json(run.provenance, {"command": evil, "git": {"commit": evil}, "machine": {"host": evil, "cpu": evil}})
    write_json(run.memory_json, {"parts_gib": {evil: 1.0}, "total_gib": 1.0, "verdict": evil})
    write_json(run.ledger, {"attempts": [{"reason": evil}, {"first_step": 3, "job_id": evil, "state": evil}]})
    page = Page(render(results))
    assert page.count("script") == page.count("img") == 0
    assert page.text.count(evil) > 8


def test_every_stage_on_the_way_is_shown_as_such(tmp_path: Path):
    build_results(tmp_path, runs=("serial",))
    for stage, files in {
        "exported": ["evaluation"],
        "trained": ["parity"],
        "training": ["finished", "trained"],
        "estimated": ["metrics"],
        "not started": ["memory_json", "config_file", "ledger", "provenance"],
    }.items():
        for file in files:
            getattr(RunFolder.of(tmp_path, "serial"), file).unlink(missing_ok=True)
        text = Page(render(tmp_path, {"serial": DATASET})).text
        assert f"serial {stage}" in text, stage
        assert "not evaluated yet" in text
    assert "No run has trained yet." in text


def test_an_empty_results_folder_is_a_page_too(tmp_path: Path):
    text = Page(render(tmp_path / "nothing")).text
    assert "2 runs, 0 trained, none evaluated yet." in text
    assert "Not tokenised yet." in text


@pytest.mark.parametrize("content", ["", "{", "[]", "null", '"text"', "\x00\xff"])
def test_damaged_files_are_named_and_left_out(results: Path, content: str):
    run = RunFolder.of(results, "serial")
    files = [run.config_file, run.memory_json, run.finished, run.ledger, run.parity, run.evaluation, run.provenance]
    for file in files:
        file.write_bytes(content.encode("latin-1"))
    DatasetFolder.of(results, DATASET).manifest.write_bytes(content.encode("latin-1"))
    text = Page(render(results)).text
    for file in files:
        assert f"run serial: {file.name} is damaged and was left out" in text
    assert f"dataset {DATASET}: manifest.json is damaged" in text


@pytest.mark.parametrize("value", [None, "text", [], -1, {"a": []}, True])
def test_files_of_an_unknown_shape_do_not_break_the_page(results: Path, value: object):
    for run_name in RUNS:
        run = RunFolder.of(results, run_name)
        names = ("memory_json", "finished", "ledger", "parity", "evaluation", "provenance", "failure")
        for file in (getattr(run, name) for name in names):
            record = read_json(file) or {"stage": 1, "sentence": 2, "command": 3}
            write_json(file, dict.fromkeys(record, value))
        lines = [json.dumps({"kind": kind, "step": 3, "loss": value, "lr": value}) for kind in ("train", "validation")]
        run.metrics.write_text("\n".join(lines), encoding="utf-8")
    manifest = DatasetFolder.of(results, DATASET).manifest
    write_json(manifest, dict.fromkeys(read_json(manifest), value))
    assert "Training report" in Page(render(results)).text


def test_losses_that_are_not_finite_leave_gaps(results: Path):
    run = RunFolder.of(results, "serial")
    records = [{"kind": "train", "step": step, "loss": None if step == 5 else 2.0 + step} for step in range(1, 10)]
    run.metrics.write_text("\n".join(map(json.dumps, records)), encoding="utf-8")
    one = render(results, {"serial": DATASET})
    assert one.count("<polyline") == 2 + 2 + 1


def test_failures_come_first_with_the_command_that_continues(results: Path):
    failure = {
        "stage": "train",
        "subject": "run serial",
        "sentence": "It broke.",
        "command": "neox-train submit serial",
    }
    write_json(make_folder(RunFolder.of(results, "serial").path) / "failure.json", failure)
    text = Page(render(results)).text
    assert text.index("It broke.") < text.index("Held-out bits per byte")
    assert "Continue with neox-train submit serial" in text
    assert "failed: train" in text


def test_one_run_and_ten_runs(tmp_path: Path):
    names = tuple(f"run{index}" for index in range(10))
    build_results(tmp_path, runs=names)
    page = Page(render(tmp_path, dict.fromkeys(names, DATASET)))
    assert all(name in page.text for name in names)
    assert Page(render(tmp_path, {"run0": DATASET})).text.count("the best of") == 0
