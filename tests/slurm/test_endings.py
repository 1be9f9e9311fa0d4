"""Jobs that end badly: each ending is told apart, recorded, and handled."""

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from neox_train.cluster import causes
from neox_train.config.layout import DatasetFolder
from neox_train.monitoring.flight_recorder import read_dumps
from neox_train.monitoring.flight_summary import summarise
from tests.data.pairs import write_wrong_labels

from .lab import SlurmLab
from .trainings import Training

pytestmark = [pytest.mark.slurm, pytest.mark.timeout(600)]


def test_killed_rank_displaced_job_and_cancelled_run(
    slurm: SlurmLab, dataset: DatasetFolder, undisturbed: Training, tmp_path: Path
) -> None:
    training = Training(tmp_path, dataset, facts={**undisturbed.facts, "partition": "lowcancel"})
    command = training.start()
    command.wait_until(training.trains(0))

    # One rank is killed without a word: the others end with it, and a new job goes on.
    victim = training.processes - 1
    os.kill(training.ranks(0)[victim]["pid"], signal.SIGKILL)
    command.wait_until(training.trains(0, attempt=2))
    first = training.attempts[0]
    assert (first["state"], first["cause"]) == ("failed", causes.RANK_KILLED)
    assert first["reason"].startswith(f"rank {victim} (process ")
    assert f"rank {victim} (process " in command.text and "ended without a word" in command.text
    # The steps that it printed before are no part of the reason.
    assert "failed; its last" not in command.text

    # Another job displaces it on a partition that cancels: it is submitted anew.
    with training.paused(0):
        slurm.displace(training.job_id)
    command.wait_until(training.trains(0, attempt=3))
    assert training.attempts[1]["cause"] == causes.PREEMPTED
    assert training.attempts[1]["job_id"] != training.job_id

    # Cancelled by name from another shell: the follower ends, and no command submits the run again.
    with training.paused(0):
        code, text = training.command("cancel", training.name)
    assert code == 0, text
    assert f"job {training.job_id} of run tiny is cancelled" in text
    assert command.wait() == 6
    assert "cancelled" in command.text
    last = training.attempts[-1]
    assert (last["state"], last["cause"]) == ("cancelled", causes.CANCELLED)
    count = len(training.attempts)
    code, text = training.command()
    assert code == 6
    assert "neox-train cancel tiny --undo" in text
    assert len(training.attempts) == count

    assert training.command("cancel", training.name, "--undo")[0] == 0
    code, text = training.command()
    assert code == 0, text
    assert training.losses == undisturbed.losses


def test_a_rank_that_hangs_is_named_and_ends_the_job(slurm: SlurmLab, dataset: DatasetFolder, tmp_path: Path) -> None:
    facts = {
        "processes_per_node": 1,
        "max_restarts": 0,
        "environment": {"OMP_NUM_THREADS": "1", "NEOX_TRAIN_STALL_SECONDS": "8"},
    }
    training = Training(tmp_path, dataset, facts=facts)
    command = training.start()
    command.wait_until(training.trains(0))
    os.kill(training.ranks(0)[1]["pid"], signal.SIGSTOP)
    assert command.wait() == 6
    (attempt,) = training.attempts
    assert attempt["cause"] == causes.HANG
    assert attempt["reason"].startswith("rank 1 ")
    assert "made no progress for" in attempt["reason"]
    log = (training.run.path / attempt["folder"] / f"{training.job_id}_0_log.out").read_text()
    assert "made no progress for" in log
    assert "run_step" in log, "the stacks are in the log"
    nodes = json.loads(training.run.provenance.read_text())["topology"]["nodes"]
    assert len(nodes) == 2
    assert f"nodes: {nodes[0]}" in log
    assert "2 nodes; of 1 groups of replicas 1 cross nodes" in log
    (flight,) = (training.run.path / attempt["folder"]).glob("flight-*")
    told = summarise(read_dumps(flight))
    # A rank may have been stopped inside the call: both are waiting then.
    waits = ("rank 0 waited in", "in which rank 0 waited", "ranks 0, 1 waited in")
    assert any(words in line for line in told for words in waits), told


@pytest.fixture
def full_disk(tmp_path: Path) -> Iterator[Path]:
    """A folder without room for a checkpoint; without root, one that may not be written."""
    place = tmp_path / "disk"
    place.mkdir()
    if os.geteuid() != 0:
        place.chmod(0o500)
        yield place
        place.chmod(0o700)
        return
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(place)], check=True)
    yield place
    subprocess.run(["umount", str(place)], check=True)


def test_errors_that_would_repeat_are_one_sentence_and_one_job_each(
    slurm: SlurmLab, dataset: DatasetFolder, tmp_path: Path, full_disk: Path
) -> None:
    place = str(full_disk / "checkpoints")
    little = {"memory_per_node": "150M", "max_restarts": 0}
    expected: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
        causes.CONFIGURATION: ({}, write_wrong_labels(tmp_path), "a label is its token, or -100"),
        causes.NOT_FINITE: ({}, {"optimizer": {"type": "SGD", "params": {"lr": 1e38}}, "warmup": 0.0}, "not finite"),
        causes.STORAGE: ({}, {"save": place, "load": place}, place),
        causes.OUT_OF_MEMORY: (little, {}, "used more memory than the job was given"),
    }
    trainings = {
        cause: Training(
            tmp_path / cause.replace(" ", "-"),
            dataset,
            nodes=1,
            facts={"processes_per_node": 1, **facts},
            changes={"train_iters": 100, **changes},
        )
        for cause, (facts, changes, _) in expected.items()
    }
    # At the same time, as the cores allow.
    commands = {cause: training.start() for cause, training in trainings.items()}
    for cause, training in trainings.items():
        assert commands[cause].wait() == {causes.CONFIGURATION: 2, causes.STORAGE: 4}.get(cause, 6), cause
        text = commands[cause].text
        (error,) = [line for line in text.splitlines() if line.startswith("error: ")]
        assert expected[cause][2] in error
        assert "Traceback" not in text
        (attempt,) = training.attempts
        assert (attempt["state"], attempt["cause"]) == ("failed", cause)
        assert json.loads(training.run.failure.read_text())["sentence"] in error


def test_no_new_step_since_the_last_start_ends_the_run_with_the_logs_last_lines(
    slurm: SlurmLab, dataset: DatasetFolder, tmp_path: Path
) -> None:
    facts = {"processes_per_node": 1, "python": "/nowhere/python", "max_restarts": 5}
    training = Training(tmp_path, dataset, nodes=1, facts=facts)
    code, text = training.command()
    assert code == 6
    assert len(training.attempts) == 2
    assert "no new step since the last start, so it is not started again" in text
    assert "the job failed; the last " in text
    assert "/nowhere/python: No such file or directory" in text
