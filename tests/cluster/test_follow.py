import io
import json
import os
import shutil
import signal
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import pytest

from neox_train.cluster.causes import SIGNAL
from neox_train.cluster.endings import INTERRUPTED
from neox_train.cluster.follow import Follower
from neox_train.cluster.jobs import ENDED, PENDING, JobState
from neox_train.cluster.ledger import RUNNING, Attempt, Ledger
from neox_train.cluster.rank_record import FINISHED, RankRecord, record_file
from neox_train.cluster.reporter import Reporter
from neox_train.cluster.start_note import write_start_note
from neox_train.cluster.stop_signals import StopSignals
from neox_train.config.layout import RunFolder
from neox_train.errors import StorageError
from neox_train.files import write_json


class QueuedJob:
    """A job that waits, runs, is queued again by Slurm, and finishes: what a follower sees of it."""

    job_id = "17"
    processes = 2
    survives_launcher = True
    cluster_name = None
    poll_seconds = 0.0

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.polls = 0

    def state(self) -> JobState:
        self.polls += 1
        if self.polls == 1:
            return JobState(PENDING, "Priority")
        if self.polls == 2:
            self.begin(start=0, at=5000.0, outcome="stopped", ended=5600.0)
            return JobState("running")
        self.begin(start=1, at=9000.0, outcome=FINISHED, ended=9100.0)
        return JobState(ENDED)

    def begin(self, *, start: int, at: float, outcome: str, ended: float | None) -> None:
        for rank in range(self.processes):
            record = RankRecord(rank, "node", 1, start, at + rank, outcome=outcome, ended=ended)
            write_json(record_file(self.folder, self.job_id, rank, start), asdict(record))

    def vanished_ranks(self) -> list[int]:
        return []

    def ends_with_its_first_rank(self) -> bool:
        return True


def test_an_attempt_starts_with_its_ranks_and_not_in_the_queue(tmp_path: Path) -> None:
    run = RunFolder(tmp_path)
    ledger = Ledger(run.ledger)
    ledger.add(Attempt(1, "a-1", "slurm", "login", 1, 2, "logs/attempt-0001", 1000.0, state=RUNNING, job_id="17"))
    job = QueuedJob(tmp_path / "logs")
    with StopSignals() as signals:
        ending = Follower(run, job, ledger, 20, Reporter("a"), signals).follow()  # type: ignore[arg-type]
    assert ending.outcome == FINISHED
    attempt = Ledger(run.ledger).attempts[0]
    assert (attempt.submitted, attempt.started, attempt.resumed) == (1000.0, 5000.0, 9000.0)
    assert [(start["began"], start["ended"]) for start in attempt.starts] == [(5000.0, 5600.0)]


@pytest.mark.parametrize("offset_seconds", [-600.0, 600.0])
def test_steps_are_counted_by_the_clock_of_the_ranks(tmp_path: Path, offset_seconds: float) -> None:
    run = RunFolder(tmp_path)
    ledger = Ledger(run.ledger)
    submitted = 5000.0 + offset_seconds
    ledger.add(Attempt(1, "a-1", "slurm", "login", 1, 2, "logs/attempt-0001", submitted, state=RUNNING, job_id="17"))
    # Steps 1 and 2 are an earlier attempt's; this one's ranks begin at 5000 by their own clock.
    lines = [{"kind": "train", "step": step, "time": 4998.0 + step} for step in range(1, 6)]
    run.metrics.write_text("".join(json.dumps(line) + "\n" for line in lines))
    with StopSignals() as signals:
        follower = Follower(run, QueuedJob(tmp_path / "logs"), ledger, 20, Reporter("a"), signals)  # type: ignore[arg-type]
        follower.follow()
    assert follower.steps == (2, 5)


def test_what_rank_0_says_of_a_start_is_told_once(tmp_path: Path) -> None:
    run = RunFolder(tmp_path)
    ledger = Ledger(run.ledger)
    ledger.add(Attempt(1, "a-1", "slurm", "login", 1, 2, "logs/attempt-0001", 1000.0, state=RUNNING, job_id="17"))
    job = QueuedJob(tmp_path / "logs")
    for start in (0, 1):
        write_start_note(job.folder, "17", start, [f"checkpoint step_{start} skipped: torn"])
    stream = io.StringIO()
    with StopSignals() as signals:
        Follower(run, job, ledger, 20, Reporter("a", stream), signals).follow()  # type: ignore[arg-type]
    for start in (0, 1):
        assert stream.getvalue().count(f"a: checkpoint step_{start} skipped: torn\n") == 1


class LocalRanks(QueuedJob):
    """Ranks on this machine, which live until they are ended; ``happen`` is what befalls them at the second look."""

    survives_launcher = False

    def __init__(self, folder: Path, happen: Callable[[], None]) -> None:
        super().__init__(folder)
        self.happen = happen
        self.ended = 0
        self.error: BaseException | None = None

    def state(self) -> JobState:
        self.polls += 1
        if self.polls == 2:
            self.happen()
        assert self.polls < 10, "nobody noticed"
        return JobState("running")

    def ends_with_its_first_rank(self) -> bool:
        return False

    def end(self) -> None:
        self.ended += 1


def follow_ranks(run: RunFolder, happen: Callable[[], None]) -> LocalRanks:
    ledger = Ledger(run.ledger)
    ledger.add(Attempt(1, "a-1", "local", "here", 1, 2, "logs/attempt-0001", 1000.0, state=RUNNING, job_id="17"))
    job = LocalRanks(run.path / "logs" / "attempt-0001", happen)
    job.begin(start=0, at=5000.0, outcome="running", ended=None)
    with StopSignals() as signals, pytest.raises((StorageError, ZeroDivisionError)) as error:
        Follower(run, job, ledger, 20, Reporter("a"), signals).follow()  # type: ignore[arg-type]
    job.error = error.value
    return job


def test_a_removed_folder_ends_the_ranks_in_a_sentence(tmp_path: Path) -> None:
    run = RunFolder(tmp_path / "run")
    job = follow_ranks(run, lambda: shutil.rmtree(run.path))
    assert job.ended == 1
    assert f"{run.path} was removed while the run trained, so its ranks were ended" in str(job.error)
    assert not run.path.exists()


def test_a_lost_ledger_alone_is_no_removed_folder(tmp_path: Path) -> None:
    run = RunFolder(tmp_path / "run")
    ledger = Ledger(run.ledger)
    assert not ledger.is_there()
    ledger.add(Attempt(1, "a-1", "local", "here", 1, 2, "logs/attempt-0001", 1000.0, state=RUNNING, job_id="17"))
    run.ledger.unlink()
    assert ledger.is_there()


def test_ranks_do_not_outlive_a_fault_of_their_follower(tmp_path: Path) -> None:
    job = follow_ranks(RunFolder(tmp_path / "run"), lambda: print(1 / 0))
    assert job.ended == 1


class StartingRanks(LocalRanks):
    """Ranks without a handler yet, which the signal that asks them to stop ends."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, lambda: os.kill(os.getpid(), signal.SIGTERM))
        self.asked = False

    def request_stop(self) -> None:
        self.asked = True

    def vanished_ranks(self) -> list[int]:
        return [0, 1] if self.asked else []


def test_a_stop_of_ranks_that_only_start_is_a_stop(tmp_path: Path) -> None:
    run = RunFolder(tmp_path / "run")
    ledger = Ledger(run.ledger)
    ledger.add(Attempt(1, "a-1", "local", "here", 1, 2, "logs/attempt-0001", 1000.0, state=RUNNING, job_id="17"))
    job = StartingRanks(run.path / "logs" / "attempt-0001")
    with StopSignals() as signals:
        ending = Follower(run, job, ledger, 20, Reporter("a"), signals).follow()  # type: ignore[arg-type]
    assert (ending.outcome, ending.cause) == (INTERRUPTED, SIGNAL)
    assert ending.reason == "ended by SIGTERM before rank 0 saved"
    assert job.ended == 1
