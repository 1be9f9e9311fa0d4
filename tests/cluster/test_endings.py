from pathlib import Path

import pytest

from neox_train.cluster import causes
from neox_train.cluster.endings import (
    CANCELLED,
    CRASHED,
    FAILED,
    FINISHED,
    STOPPED,
    TAIL_LINES,
    ending_of,
    first_failure,
    log_tail,
)
from neox_train.cluster.jobs import ENDED, JobState
from neox_train.cluster.rank_record import RankRecord

OVER = JobState(ENDED)


def rank(number: int, outcome: str = "running", ended: float | None = None, **more: object) -> RankRecord:
    return RankRecord(number, "node1", 100 + number, 0, 1.0, outcome, ended, **more)  # type: ignore[arg-type]


def test_all_finished_or_all_stopped() -> None:
    assert ending_of({0: rank(0, "finished", 5.0), 1: rank(1, "finished", 5.0)}, 2, OVER).outcome == FINISHED
    stopped = ending_of({0: rank(0, "stopped", 5.0), 1: rank(1, "stopped", 5.0)}, 2, OVER)
    assert (stopped.outcome, stopped.retry) == (STOPPED, True)


def test_the_rank_that_vanished_is_blamed_for_its_peers_errors() -> None:
    records = {0: rank(0, "failed", 5.0, sentence="Connection closed by peer"), 1: rank(1)}
    failure = first_failure(records, [1])
    assert failure is not None
    assert (failure.outcome, failure.rank, failure.retry) == (CRASHED, 1, True)
    assert "process 101 on node1" in failure.reason


def test_the_first_error_is_blamed_and_a_users_error_before_all() -> None:
    records = {0: rank(0, "failed", 6.0, sentence="closed"), 1: rank(1, "failed", 5.0, sentence="out of memory")}
    failure = first_failure(records, [])
    assert failure is not None
    assert (failure.outcome, failure.rank, failure.reason) == (FAILED, 1, "rank 1: out of memory")
    records[0] = rank(0, "failed", 6.0, sentence="no such dataset", retry=False)
    failure = first_failure(records, [1])
    assert failure is not None
    assert (failure.rank, failure.retry) == (0, False)


def test_a_job_that_ended_before_any_rank_started() -> None:
    ending = ending_of({}, 2, JobState(ENDED, "TIMEOUT"))
    assert (ending.outcome, ending.rank) == (CRASHED, None)
    assert ending.cause == causes.TIME_LIMIT


def test_one_silent_rank_of_an_ended_job_is_named() -> None:
    ending = ending_of({0: rank(0, "finished", 5.0), 1: rank(1)}, 2, JobState(ENDED, "FAILED"))
    assert (ending.outcome, ending.rank) == (CRASHED, 1)


def test_last_lines_of_a_log(tmp_path: Path) -> None:
    (tmp_path / "17_1_log.out").write_text("".join(f"line {number}\n" for number in range(100)))
    lines = log_tail(tmp_path, "17", 1)
    assert lines == [f"line {number}" for number in range(100 - TAIL_LINES, 100)]
    assert log_tail(tmp_path, "17", 0) == []


@pytest.mark.parametrize(
    ("word", "cause", "retry"),
    [
        ("NODE_FAIL", causes.NODE_FAILURE, True),
        ("PREEMPTED", causes.PREEMPTED, True),
        ("TIMEOUT", causes.TIME_LIMIT, True),
        ("OUT_OF_MEMORY", causes.OUT_OF_MEMORY, True),
        ("GONE", causes.LOST, True),
        ("FAILED", causes.ERROR, True),
        ("CANCELLED by 1000", causes.CANCELLED, False),
    ],
)
def test_the_schedulers_word_tells_what_silent_ranks_cannot(word: str, cause: str, retry: bool) -> None:
    ending = ending_of({0: rank(0), 1: rank(1)}, 2, JobState(ENDED, word))
    assert (ending.cause, ending.retry) == (cause, retry)


def test_a_users_error_wins_over_the_schedulers_word() -> None:
    records = {0: rank(0, "failed", 5.0, sentence="no such dataset", retry=False, cause="configuration"), 1: rank(1)}
    ending = ending_of(records, 2, JobState(ENDED, "FAILED"))
    assert (ending.outcome, ending.cause, ending.reason) == (FAILED, causes.CONFIGURATION, "no such dataset")


def test_a_cancelled_job_is_cancelled_though_its_ranks_saved_in_time() -> None:
    records = {number: rank(number, "stopped", 5.0, cause="signal") for number in range(2)}
    assert ending_of(records, 2, JobState(ENDED, "CANCELLED")).outcome == CANCELLED


def test_ranks_that_were_cancelled_and_saved_tell_it_when_slurm_has_forgotten() -> None:
    records = {0: rank(0, "stopped", 5.0, cause=causes.CANCELLED), 1: rank(1, "stopped", 5.0, cause=causes.SIGNAL)}
    assert ending_of(records, 2, JobState(ENDED, "GONE")).outcome == CANCELLED


def test_of_hanging_ranks_the_one_that_is_not_waiting_is_blamed() -> None:
    waiting = "rank 0 made no progress for 60 s after step 7; it was waiting for other ranks (step.py:1 run)"
    busy = "rank 1 made no progress for 60 s after step 7; it was in loader.py:12 read"
    records = {
        0: rank(0, "failed", 5.0, sentence=waiting, cause=causes.HANG),
        1: rank(1, "failed", 6.0, sentence=busy, cause=causes.HANG),
    }
    ending = ending_of(records, 2, OVER)
    assert (ending.rank, ending.cause, ending.reason) == (1, causes.HANG, busy)
    # One that was stopped, and woke when the others had gone.
    records[1] = rank(1, "failed", 9.0, sentence="another rank is gone", cause=causes.RANK_LOST)
    ending = ending_of(records, 2, OVER)
    assert (ending.rank, ending.cause) == (1, causes.HANG)
    assert ending.reason.startswith("rank 1 (process 101 on node1) hung: rank 0 made no progress")
    # One that was stopped in a collective, and whose own watch stood still with it.
    late = waiting.replace("rank 0", "rank 1").replace("60 s", "64 s")
    records[1] = rank(1, "failed", 9.0, sentence=late, cause=causes.HANG)
    ending = ending_of(records, 2, OVER)
    assert (ending.rank, ending.reason) == (1, late)
    # One that says nothing at all is stuck deeper than those that do.
    records[1] = rank(1)
    ending = ending_of(records, 2, OVER)
    assert (ending.rank, ending.cause) == (1, causes.HANG)
    assert "process 101 on node1" in ending.reason
