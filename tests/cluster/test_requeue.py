import os
import signal
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from neox_train.cluster import causes, rank_signals, requeue
from neox_train.cluster.job_note import JobNote
from neox_train.cluster.rank_record import STOPPED, RankRecord
from neox_train.cluster.requeue import requeue_job, why_stopped
from neox_train.config.cluster import Cluster
from tests.cluster.stand_ins import write_command

NOTE = JobNote(Cluster(executor="slurm", time_limit_minutes=60), {}, signal_lead_seconds=300)
RUNNING = "JobId=7 JobState=RUNNING Requeue=1 Restarts=2 PreemptTime=None"


@pytest.mark.parametrize(
    ("facts", "seconds", "cause"),
    [
        (RUNNING, 100.0, causes.SIGNAL),
        # Slurm's signal may come a minute early.
        (RUNNING, 3600.0 - 300.0 - 60.0, causes.WALL),
        ("", 3500.0, causes.WALL),
        ("JobState=SIGNALING Restarts=2 PreemptTime=2026-01-01T00:00:00", 3500.0, causes.PREEMPTED),
        ("JobState=COMPLETING Restarts=3 PreemptTime=None", 100.0, causes.REQUEUED),
        ("JobState=CANCELLED Restarts=2", 100.0, causes.CANCELLED),
    ],
)
def test_why_the_ranks_stopped(facts: str, seconds: float, cause: str) -> None:
    assert why_stopped(NOTE, facts, start=2, seconds=seconds) == cause


def test_sigterm_at_the_limit_is_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(requeue, "signal_seen", lambda: "SIGTERM")
    assert why_stopped(NOTE, RUNNING, start=2, seconds=3590.0) == causes.TIME_LIMIT
    assert why_stopped(NOTE, RUNNING, start=2, seconds=3300.0) == causes.SIGNAL


@pytest.mark.parametrize(("state", "requeued"), [("RUNNING", 1), ("SIGNALING", 1), ("CANCELLED", 0), ("COMPLETING", 0)])
def test_a_job_that_is_being_ended_is_not_brought_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, state: str, requeued: int
) -> None:
    calls = tmp_path / "calls"
    body = f'case "$1" in requeue) echo "$@" >> {calls};; *) echo JobId=7 JobState={state};; esac'
    write_command(tmp_path, "scontrol", body, monkeypatch)
    for rank in range(2):
        RankRecord.begin(tmp_path, "7", rank, 0).end(tmp_path, "7", STOPPED)
    requeue_job(tmp_path, "7", 2, 0)
    assert (calls.read_text().splitlines() if calls.exists() else []) == ["requeue 7"] * requeued


def test_it_waits_until_every_rank_has_written_its_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_command(tmp_path, "scontrol", "echo JobId=7 JobState=RUNNING", monkeypatch)
    records = [RankRecord.begin(tmp_path, "7", rank, 0) for rank in range(2)]
    records[0].end(tmp_path, "7", STOPPED)
    looks: list[int] = []
    clock = SimpleNamespace(monotonic=time.monotonic, sleep=lambda _: _end_later(looks, records[1], tmp_path))
    monkeypatch.setattr(requeue, "time", clock)
    requeue_job(tmp_path, "7", 2, 0)
    assert len(looks) == 3


def _end_later(looks: list[int], record: RankRecord, folder: Path) -> None:
    looks.append(1)
    if len(looks) == 3:
        record.end(folder, "7", STOPPED)


def test_a_site_without_requeue_is_told_what_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    body = 'case "$1" in requeue) echo "requests are disabled" >&2; exit 1;; *) echo JobState=RUNNING;; esac'
    write_command(tmp_path, "scontrol", body, monkeypatch)
    RankRecord.begin(tmp_path, "7", 0, 0).end(tmp_path, "7", STOPPED)
    requeue_job(tmp_path, "7", 1, 0)
    assert "was not requeued (requests are disabled); `neox-train submit` continues it" in capfd.readouterr().err


def test_signals_are_remembered_by_their_first() -> None:
    before = {name: signal.getsignal(name) for name in (signal.SIGUSR2, signal.SIGTERM, signal.SIGHUP, signal.SIGINT)}
    try:
        rank_signals.install_handlers()
        assert rank_signals.signal_seen() == ""
        os.kill(os.getpid(), signal.SIGUSR2)
        os.kill(os.getpid(), signal.SIGTERM)
        os.kill(os.getpid(), signal.SIGHUP)
        assert rank_signals.signal_seen() == "SIGUSR2"
    finally:
        from neox_train.training.stop import clear_stop

        clear_stop()
        rank_signals.install_handlers()
        for name, handler in before.items():
            signal.signal(name, handler)
