"""Snakemake and its training killed and failed mid-way: the same command goes on, and nothing is lost or doubled."""

import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from neox_train.config.layout import RunFolder
from tests.workflow.working_copy import STEPS, WorkingCopy, training_records

pytestmark = [pytest.mark.workflow, pytest.mark.distributed, pytest.mark.timeout(600)]

LONGER = 10 * STEPS
TARGET = "results/runs/serial/trained.json"


def reached(run: RunFolder, step: int) -> Callable[[], bool]:
    return lambda: any(record["step"] >= step for record in training_records(run))


def kept_files(run: RunFolder) -> set[Path]:
    """What may not go: checkpoints, logs, metrics."""
    files = [*run.checkpoints.rglob("*"), *run.logs.rglob("*"), run.metrics]
    return {file for file in files if file.is_file() and not any(part.startswith(".") for part in file.parts[-3:])}


def test_killed_and_failed_trainings_continue_bit_for_bit(tmp_path: Path, finished: WorkingCopy) -> None:
    copy = WorkingCopy.make(tmp_path / "copy")
    run = copy.run("serial")
    # Longer than a signal's way: the steps of the undisturbed training are its first ones.
    pipeline = copy.folder / "pipeline.yaml"
    longer = f"[model.yml]\n    overrides: {{train_iters: {LONGER}}}\n"
    pipeline.write_text(pipeline.read_text().replace("[model.yml]\n", longer, 1))

    snakemake = copy.start(TARGET)
    snakemake.wait_until(reached(run, 9))
    submit = snakemake.stage_process("submit")
    os.kill(snakemake.process.pid, signal.SIGKILL)
    submit.kill()
    snakemake.wait()
    before = kept_files(run)
    assert {"step_00000004", "step_00000008"} <= {file.parent.name for file in before}

    killed_at = training_records(run)[-1]["step"]
    snakemake = copy.start(TARGET)
    snakemake.wait_until(lambda: run.ledger.read_text().count('"number"') == 2 and reached(run, killed_at + 4)())
    assert before <= kept_files(run)
    snakemake.stage_process("submit").send_signal(signal.SIGTERM)
    code, text = snakemake.wait()
    assert code != 0, text
    assert "run serial, train: run serial after step" in text
    assert "saved and stopped by SIGTERM" in text
    assert not run.trained.exists()
    assert before <= kept_files(run)
    before = kept_files(run)
    steps = [record["step"] for record in training_records(run)]
    assert steps == list(range(1, len(steps) + 1))

    code, text = copy.snakemake(TARGET)
    assert code == 0, text
    assert before <= kept_files(run)
    assert [record["step"] for record in training_records(run)] == list(range(1, LONGER + 1))
    undisturbed = training_records(finished.run("serial"))
    learnt = [record["loss"] for record in training_records(run)]
    assert learnt[:STEPS] == [record["loss"] for record in undisturbed]


def test_a_stage_killed_without_a_word_is_named_at_the_end(tmp_path: Path) -> None:
    copy = WorkingCopy.make(tmp_path / "copy")
    dataset = copy.dataset()
    snakemake = copy.start(str(dataset.tokenized.relative_to(copy.folder)))
    snakemake.wait_until((dataset.path / "stage.json").is_file)
    snakemake.stage_process("tokenize").kill()
    code, text = snakemake.wait()
    assert code != 0
    (line,) = [line for line in text.splitlines() if line.startswith("dataset words, tokenize: ")]
    assert "no word of how it ended" in line and "tokenize.log" in line and "again: neox-train tokenize words" in line
