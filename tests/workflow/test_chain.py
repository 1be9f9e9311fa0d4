"""The whole chain through the real Snakemake: made once, repeated at no cost, mended where something is missing."""

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from neox_train.monitoring.quantities import format_percent
from tests.workflow.working_copy import STEPS, WorkingCopy, modification_times, training_records

pytestmark = [pytest.mark.workflow, pytest.mark.distributed, pytest.mark.timeout(600)]


def test_every_stage_leaves_what_it_promises(finished: WorkingCopy) -> None:
    for name in ("serial", "parallel"):
        run = finished.run(name)
        assert [record["step"] for record in training_records(run)] == list(range(1, STEPS + 1))
        trained = json.loads(run.trained.read_text())
        assert trained["step"] == STEPS
        assert (run.path / trained["checkpoint"] / "manifest.json").is_file()
        assert (run.hf / "config.json").is_file()
        assert json.loads(run.evaluation.read_text())
        assert [attempt["state"] for attempt in json.loads(run.ledger.read_text())["attempts"]] == ["finished"]
        assert not run.failure.exists()
    page = (finished.results / "report" / "index.html").read_text()
    for name in ("serial", "parallel"):
        memory = json.loads(finished.run(name).finished.read_text())["memory_estimate"]
        assert memory["error"] == memory["estimated_gib"] / memory["measured_gib"] - 1
        assert abs(memory["error"]) < 0.15
        assert f"measured, estimate {format_percent(memory['error'], signed=True)}" in page
    assert "serial" in page
    assert "parallel" in page
    serial, parallel = (training_records(finished.run(name))[-1]["loss"] for name in ("serial", "parallel"))
    assert serial != parallel


def test_a_second_run_does_nothing(finished: WorkingCopy) -> None:
    before = modification_times(finished.results)
    code, text = finished.snakemake()
    assert code == 0, text
    assert "Nothing to be done" in text
    after = modification_times(finished.results)
    assert {name for name in before | after if before.get(name) != after.get(name)} <= {"cluster-local.json"}


def remove_export(copy: WorkingCopy) -> Path:
    shutil.move(copy.run("serial").hf, copy.folder / "away")
    return copy.run("serial").hf


def remove_one_export_file(copy: WorkingCopy) -> Path:
    file = copy.run("parallel").hf / "config.json"
    shutil.move(file, copy.folder / "away")
    return file


def remove_estimate(copy: WorkingCopy) -> Path:
    shutil.move(copy.run("serial").memory_json, copy.folder / "away")
    return copy.run("serial").memory_json


def remove_shard(copy: WorkingCopy) -> Path:
    shutil.move(copy.dataset().shard("train", 0), copy.folder / "away")
    return copy.dataset().shard("train", 0)


def remove_checkpoint(copy: WorkingCopy) -> Path:
    run = copy.run("serial")
    checkpoint = run.path / json.loads(run.trained.read_text())["checkpoint"]
    shutil.move(checkpoint, copy.folder / "away")
    return checkpoint


def remove_checkpoint_and_export(copy: WorkingCopy) -> Path:
    shutil.rmtree(copy.run("serial").hf)
    return remove_checkpoint(copy)


def remove_evaluation(copy: WorkingCopy) -> Path:
    shutil.move(copy.run("serial").evaluation, copy.folder / "away")
    return copy.run("serial").evaluation


RESULT = {"convert": 1, "evaluate": 1, "report": 1}


@pytest.mark.parametrize(
    ("remove", "jobs"),
    [
        (remove_export, RESULT),
        (remove_one_export_file, RESULT),
        (remove_evaluation, {"evaluate": 1, "report": 1}),
        (remove_estimate, {"estimate": 1, "train": 1, **RESULT}),
        (remove_checkpoint, {}),
        (remove_checkpoint_and_export, {"train": 1, **RESULT}),
        (remove_shard, {"tokenize": 1, "estimate": 2, "train": 2, "convert": 2, "evaluate": 2, "report": 1}),
    ],
)
def test_what_is_missing_is_made_again_with_what_depends_on_it(
    finished: WorkingCopy, tmp_path: Path, remove: Callable[[WorkingCopy], Path], jobs: dict[str, int]
) -> None:
    copy = WorkingCopy(tmp_path / "copy")
    shutil.copytree(finished.folder, copy.folder)
    assert copy.planned_jobs() == {}
    remove(copy)
    before = modification_times(copy.results)
    assert copy.planned_jobs() == jobs
    assert modification_times(copy.results) == before


def test_an_export_made_again_trains_nothing(finished: WorkingCopy, tmp_path: Path) -> None:
    copy = WorkingCopy(tmp_path / "copy")
    shutil.copytree(finished.folder, copy.folder)
    before = modification_times(copy.results)
    remove_export(copy)
    code, text = copy.snakemake()
    assert code == 0, text
    assert "converted.json does not hold: " in text
    after = modification_times(copy.results)
    changed = {name for name in before if before[name] != after[name]}
    assert "runs/serial/hf/config.json" in changed
    for name in changed:
        assert re.match(r"runs/serial/(hf/|parity|converted|evaluation)|report/|cluster-local\.json", name), name


def test_a_changed_run_entry_touches_that_run_alone(finished: WorkingCopy, tmp_path: Path) -> None:
    copy = WorkingCopy(tmp_path / "copy")
    shutil.copytree(finished.folder, copy.folder)
    pipeline = copy.folder / "pipeline.yaml"
    changed = pipeline.read_text().replace(
        "[model.yml, parallel.yml]", "[model.yml, parallel.yml]\n    overrides: {train_iters: 24}"
    )
    pipeline.write_text(changed)
    assert copy.planned_jobs() == {"estimate": 1, "train": 1, **RESULT}


def test_a_changed_dataset_entry_is_seen_where_snakemake_remembers_nothing(
    finished: WorkingCopy, tmp_path: Path
) -> None:
    copy = WorkingCopy(tmp_path / "copy")
    shutil.copytree(finished.folder, copy.folder, ignore=shutil.ignore_patterns(".snakemake"))
    assert copy.planned_jobs() == {}
    pipeline = copy.folder / "pipeline.yaml"
    pipeline.write_text(pipeline.read_text().replace("vocab_size: ", "vocab_size: 1"))
    assert "tokenized.json does not hold: the dataset's entry in the pipeline file changed" in copy.dry_run()
    assert copy.planned_jobs()["tokenize"] == 1


def test_an_unusable_file_costs_no_tokens(finished: WorkingCopy, tmp_path: Path) -> None:
    copy = WorkingCopy(tmp_path / "copy")
    shutil.copytree(finished.folder, copy.folder)
    dataset = copy.dataset()
    kept = [dataset.manifest, dataset.tokenizer, *sorted(dataset.path.glob("tokens-*.h5"))]
    before = {file: file.stat().st_mtime_ns for file in kept}
    broken = copy.folder / "corpus" / "zz-broken.txt"
    broken.write_bytes(b"half a \xe2 character\n")
    code, text = copy.snakemake()
    assert code == 1
    assert "dataset words, tokenize: " in text and "zz-broken.txt" in text
    assert {file: file.stat().st_mtime_ns for file in kept} == before

    broken.unlink()
    code, text = copy.snakemake()
    assert code == 0, text
    assert "nothing to do" in text
    assert {file: file.stat().st_mtime_ns for file in kept} == before
    for name in ("serial", "parallel"):
        assert len(json.loads(copy.run(name).ledger.read_text())["attempts"]) == 1


def test_a_dry_run_tells_of_a_lost_checkpoint_and_keeps_every_marker(finished: WorkingCopy, tmp_path: Path) -> None:
    copy = WorkingCopy(tmp_path / "copy")
    shutil.copytree(finished.folder, copy.folder)
    remove_checkpoint(copy)
    text = copy.dry_run()
    assert "run serial: its checkpoint step_00000020 is gone" in text and "not repeated" in text
    assert copy.run("serial").trained.is_file()

    # A stage before the training is made again: what the export stands for is not trained again.
    copy.run("serial").memory_json.unlink()
    code, text = copy.snakemake()
    assert code == 0, text
    assert len(json.loads(copy.run("serial").ledger.read_text())["attempts"]) == 1
    assert copy.run("serial").converted.is_file()
