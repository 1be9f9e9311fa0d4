import json
from collections.abc import Sequence
from dataclasses import asdict
from datetime import datetime
from pathlib import Path

import pytest

from neox_train.cluster import causes
from neox_train.cluster.rank_record import RankRecord, list_starts, log_file, record_file
from neox_train.cluster.slurm_state import Answer
from neox_train.cluster.starts import describe_starts

JOB = "815"


def write_start(folder: Path, start: int, began: float, outcome: str = "running", cause: str = "") -> None:
    for rank in range(2):
        ended = began + 50 if outcome != "running" else None
        record = RankRecord(rank, f"node{rank}", 1, start, began, outcome, ended, f"{outcome}", True, cause, start * 10)
        record_file(folder, JOB, rank, start).write_text(json.dumps(asdict(record)))


def silent(command: Sequence[str]) -> Answer:
    return Answer(1, "", "no accounting, no answer")


def found(folder: Path, run=silent, *, is_over: bool = False) -> list[str]:  # type: ignore[no-untyped-def]
    return [entry["cause"] for entry in describe_starts(folder, JOB, 2, is_over=is_over, run=run)]


def test_what_the_ranks_wrote_tells_the_cause(tmp_path: Path) -> None:
    write_start(tmp_path, 0, 100.0, "stopped", causes.WALL)
    write_start(tmp_path, 2, 300.0, "failed", causes.HANG)
    write_start(tmp_path, 3, 500.0)
    assert list_starts(tmp_path, JOB) == [0, 2, 3]
    assert found(tmp_path) == [causes.WALL, causes.HANG]
    (first, _) = describe_starts(tmp_path, JOB, 2, is_over=False, run=silent)
    assert (first["start"], first["began"], first["ended"], first["step"]) == (0, 100.0, 150.0, 0)


def step_daemon(seconds: float, why: str) -> str:
    time = datetime.fromtimestamp(seconds).isoformat(timespec="seconds")
    return f"slurmstepd-node1: error: *** STEP {JOB}.0 ON node1 CANCELLED AT {time} DUE TO {why} ***\n"


def test_the_step_daemons_words_in_the_log_tell_what_silent_ranks_cannot(tmp_path: Path) -> None:
    for start, began in enumerate((1000.0, 2000.0, 3000.0, 4000.0)):
        write_start(tmp_path, start, began)
    write_start(tmp_path, 1, 2000.0, "stopped", causes.SIGNAL)
    words = step_daemon(1500.0, "NODE FAILURE, SEE SLURMCTLD LOG FOR DETAILS") + step_daemon(2050.0, "PREEMPTION")
    log_file(tmp_path, JOB, 0).write_text(words + step_daemon(3100.0, "TIME LIMIT") + "step 7\n")
    assert found(tmp_path) == [causes.NODE_FAILURE, causes.PREEMPTED, causes.TIME_LIMIT]


@pytest.mark.parametrize(
    ("answers", "cause"),
    [
        ({"sacct": "NODE_FAIL\nRUNNING\n"}, causes.NODE_FAILURE),
        ({"sacct": "PREEMPTED\nRUNNING\n"}, causes.PREEMPTED),
        ({"sinfo": "node1\n"}, causes.NODE_FAILURE),
        ({"sinfo": "", "scontrol": "JobId=815 PreemptTime=2026-01-01T00:00:00"}, causes.PREEMPTED),
        ({"sinfo": "", "scontrol": "JobId=815 PreemptTime=None"}, causes.REQUEUED),
        ({}, causes.REQUEUED),
    ],
)
def test_slurm_is_asked_for_the_rest(tmp_path: Path, answers: dict[str, str], cause: str) -> None:
    write_start(tmp_path, 0, 100.0)
    write_start(tmp_path, 1, 300.0)

    def run(command: Sequence[str]) -> Answer:
        return Answer(0, answers[command[0]], "") if command[0] in answers else Answer(1, "", "")

    assert found(tmp_path, run) == [cause]
    assert len(found(tmp_path, run, is_over=True)) == 2
