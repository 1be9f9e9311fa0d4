from pathlib import Path

from neox_train.cluster.endings import (
    CRASHED,
    FAILED,
    FINISHED,
    STOPPED,
    TAIL_LINES,
    ending_of,
    first_failure,
    log_tail,
)
from neox_train.cluster.rank_record import RankRecord


def rank(number: int, outcome: str = "running", ended: float | None = None, **more: object) -> RankRecord:
    return RankRecord(number, "node1", 100 + number, 0, 1.0, outcome, ended, **more)  # type: ignore[arg-type]


def test_all_finished_or_all_stopped() -> None:
    assert ending_of({0: rank(0, "finished", 5.0), 1: rank(1, "finished", 5.0)}, 2, "").outcome == FINISHED
    stopped = ending_of({0: rank(0, "stopped", 5.0), 1: rank(1, "stopped", 5.0)}, 2, "")
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
    ending = ending_of({}, 2, "TIMEOUT")
    assert (ending.outcome, ending.rank) == (CRASHED, None)
    assert "TIMEOUT" in ending.reason


def test_one_silent_rank_of_an_ended_job_is_named() -> None:
    ending = ending_of({0: rank(0, "finished", 5.0), 1: rank(1)}, 2, "FAILED")
    assert (ending.outcome, ending.rank) == (CRASHED, 1)


def test_last_lines_of_a_log(tmp_path: Path) -> None:
    (tmp_path / "17_1_log.out").write_text("".join(f"line {number}\n" for number in range(100)))
    lines = log_tail(tmp_path, "17", 1)
    assert lines == [f"line {number}" for number in range(100 - TAIL_LINES, 100)]
    assert log_tail(tmp_path, "17", 0) == []
