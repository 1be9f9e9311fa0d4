import pytest

from neox_train.cluster import causes
from neox_train.cluster.endings import CRASHED, FAILED, STOPPED, Ending
from neox_train.cluster.restart import counts_as_restart, reason_to_give_up


def decide(ending: Ending, last: int | None, furthest: int, restarts: int) -> str | None:
    return reason_to_give_up(ending, last_step=last, furthest_step=furthest, restarts=restarts, max_restarts=3)


CRASH = Ending(CRASHED, retry=True)
ERROR = Ending(FAILED, retry=True)
USER_ERROR = Ending(FAILED, retry=False)


@pytest.mark.parametrize("ending", [CRASH, ERROR, Ending(STOPPED, retry=True)])
def test_progress_earns_another_start(ending: Ending) -> None:
    assert decide(ending, last=41, furthest=40, restarts=2) is None


def test_a_killed_process_without_progress_gets_one_more_start() -> None:
    assert decide(CRASH, last=None, furthest=0, restarts=0) is None
    assert "no new step" in (decide(CRASH, last=None, furthest=0, restarts=1) or "")


def test_the_same_steps_again_are_no_progress() -> None:
    assert "no new step" in (decide(CRASH, last=40, furthest=40, restarts=1) or "")


def test_an_error_without_progress_is_not_repeated() -> None:
    assert "no new step" in (decide(ERROR, last=None, furthest=0, restarts=0) or "")


def test_a_users_error_is_never_repeated() -> None:
    assert decide(USER_ERROR, last=50, furthest=40, restarts=0) is not None


def test_the_count_is_a_limit_too() -> None:
    assert "max_restarts: 3" in (decide(CRASH, last=50, furthest=40, restarts=3) or "")


@pytest.mark.parametrize("cause", [causes.PREEMPTED, causes.NODE_FAILURE, causes.TIME_LIMIT])
def test_what_the_cluster_did_is_limited_by_count_alone(cause: str) -> None:
    ending = Ending(CRASHED, retry=True, cause=cause)
    assert decide(ending, last=None, furthest=0, restarts=2) is None
    assert "max_restarts: 3" in (decide(ending, last=None, furthest=0, restarts=3) or "")
    # With new steps it is no restart at all: weeks of preemptions end nothing.
    assert not counts_as_restart(ending, last_step=41, furthest_step=40)
    assert decide(ending, last=41, furthest=40, restarts=3) is None
    assert counts_as_restart(CRASH, last_step=41, furthest_step=40)
