from collections.abc import Sequence

import pytest

from neox_train.cluster.jobs import ENDED, PENDING, RUNNING
from neox_train.cluster.slurm_state import (
    Answer,
    SlurmSilentError,
    ask_accounting,
    classify,
    find_by_name,
    find_living,
    is_limbo,
)


def answers(**by_command: Answer):  # type: ignore[no-untyped-def]
    def run(command: Sequence[str]) -> Answer:
        return by_command.get(command[0], Answer(127, "", "not installed"))

    return run


@pytest.mark.parametrize(
    ("word", "phase"),
    [
        ("PENDING", PENDING),
        ("CONFIGURING", PENDING),
        ("REQUEUED", PENDING),
        ("REQUEUE_HOLD", PENDING),
        ("COMPLETING", PENDING),
        ("SUSPENDED", PENDING),
        ("RUNNING", RUNNING),
        ("COMPLETED", ENDED),
        ("CANCELLED by 1000", ENDED),
        ("CANCELLED+", ENDED),
        ("OUT_OF_MEMORY", ENDED),
        ("NODE_FAIL", ENDED),
    ],
)
def test_state_words(word: str, phase: str) -> None:
    assert classify(word).phase == phase


def test_node_failure_is_limbo_and_a_failure_is_not() -> None:
    assert is_limbo(classify("NODE_FAIL"))
    assert is_limbo(classify("PREEMPTED"))
    assert not is_limbo(classify("FAILED"))


def test_a_reason_is_told() -> None:
    state = classify("PENDING", "Priority")
    assert (state.phase, state.detail, state.word) == (PENDING, "PENDING (Priority)", "PENDING")


def test_no_answer_is_not_a_state() -> None:
    assert ask_accounting("7", 0.0, run=answers(sacct=Answer(1, "", "Slurm accounting storage is disabled"))) is None
    assert ask_accounting("7", 0.0, run=answers()) is None
    state = ask_accounting("7", 0.0, run=answers(sacct=Answer(0, "CANCELLED by 1000\n", "")))
    assert state is not None
    assert state.phase == ENDED


def test_a_job_is_found_by_its_name() -> None:
    assert find_by_name("r-1", 0.0, answers(squeue=Answer(0, "4711\n", ""))) == "4711"
    assert find_by_name("r-1", 0.0, answers(squeue=Answer(0, "", ""), sacct=Answer(0, "815\n", ""))) == "815"
    assert find_by_name("r-1", 0.0, answers(squeue=Answer(0, "", ""))) is None


def test_a_silent_controller_is_not_the_absence_of_a_job() -> None:
    silent = answers(squeue=Answer(1, "", "slurm_load_jobs error: Unable to contact slurm controller\n"))
    for find in (lambda: find_by_name("r-1", 0.0, silent), lambda: find_living("r-1", silent)):
        with pytest.raises(SlurmSilentError, match="Unable to contact slurm controller"):
            find()
