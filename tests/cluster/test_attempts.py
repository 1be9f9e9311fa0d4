"""A submission whose answer is lost: looked for, then made again; with stand-ins for Slurm's commands."""

from pathlib import Path

import pytest

from neox_train.cluster import attempts, causes, slurm_job
from neox_train.cluster import ledger as states
from neox_train.cluster.attempts import Training, find_or_submit
from neox_train.cluster.ledger import Ledger
from neox_train.cluster.reporter import Reporter
from neox_train.cluster.sbatch import UnansweredSubmissionError, UnclearSubmissionError
from neox_train.cluster.stop_signals import StopSignals
from neox_train.config.cluster import Cluster
from neox_train.config.layout import RunFolder
from tests.cluster.stand_ins import write_command
from tests.config.files import load_tiny

AWAY = "sbatch: error: Batch job submission failed: Unable to contact slurm controller (connect failure)"


@pytest.fixture
def training(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Training:
    write_command(tmp_path, "srun", "exit 1", monkeypatch)
    write_command(tmp_path, "squeue", "exit 0")
    write_command(tmp_path, "sacct", "exit 1")
    monkeypatch.setattr(slurm_job, "_NAME_PAUSE_SECONDS", 0.0)
    monkeypatch.setattr(attempts, "_UNANSWERED_SECONDS", 0.3)
    monkeypatch.setenv("NEOX_TRAIN_POLL_SECONDS", "0.1")
    cluster = Cluster(name="lab", executor="slurm", processes_per_node=1, partition="cpu")
    return Training(RunFolder(tmp_path / "runs" / "serial"), cluster, 1, load_tiny())


def submit(training: Training) -> list[states.Attempt]:
    ledger = Ledger(training.run.ledger)
    with StopSignals() as signals:
        job, attempt = find_or_submit(training, ledger, Reporter("serial"), signals, "nothing trained yet")
    assert attempt == ledger.last
    assert job.job_id == attempt.job_id
    return ledger.attempts


def test_a_controller_that_was_away_is_asked_again(training: Training, tmp_path: Path) -> None:
    answered = tmp_path / "answered"
    write_command(
        tmp_path, "sbatch", f"[ -e {answered} ] && echo 7 && exit; touch {answered}; echo '{AWAY}' >&2; exit 1"
    )
    first, second = submit(training)
    assert (first.state, first.cause) == (states.LOST, causes.NOT_SUBMITTED)
    assert (second.state, second.job_id, second.reason) == (states.RUNNING, "7", "")


def test_a_controller_that_took_the_job_late_is_not_asked_twice(
    training: Training, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attempts, "_UNANSWERED_SECONDS", 60.0)
    looks = tmp_path / "looks"
    write_command(tmp_path, "sbatch", f"echo '{AWAY}' >&2; exit 1")
    # The job is in the queue from the eighth look on.
    write_command(tmp_path, "squeue", f"echo >> {looks}; [ $(wc -l < {looks}) -lt 8 ] || echo 7")
    (attempt,) = submit(training)
    assert attempt.job_id == "7"


def test_a_controller_that_stays_away_ends_in_its_words(training: Training, tmp_path: Path) -> None:
    calls = tmp_path / "calls"
    write_command(tmp_path, "sbatch", f"echo >> {calls}; echo '{AWAY}' >&2; exit 1")
    with pytest.raises(UnansweredSubmissionError, match="Unable to contact slurm controller"):
        submit(training)
    assert len(calls.read_text().splitlines()) == 3


def test_an_answer_without_a_job_id_is_not_followed_by_another_submission(training: Training, tmp_path: Path) -> None:
    calls = tmp_path / "calls"
    write_command(tmp_path, "sbatch", f"echo >> {calls}; echo 'queued behind maintenance window 12'")
    with pytest.raises(UnclearSubmissionError, match="maintenance window 12"):
        submit(training)
    assert len(calls.read_text().splitlines()) == 1
    (attempt,) = Ledger(training.run.ledger)
    assert attempt.is_open
    # The next command finds it by name.
    write_command(tmp_path, "squeue", "echo 9")
    assert [found.job_id for found in submit(training)] == ["9"]
