"""Lines as Slurm 22.05's daemons wrote them into the logs of jobs that ended so."""

import pytest

from neox_train.cluster import causes
from neox_train.cluster.endings import CRASHED, FAILED, STOPPED, Ending
from neox_train.cluster.log_words import heed_log, tells_of_error

TIME = "2026-03-01T10:52:23"
KILLED_PEER = [
    "srun: error: node1: task 1: Killed",
    "srun: launch/slurm: _step_signal: Terminating StepId=2.0",
    f"slurmstepd-node1: error: *** STEP 2.0 ON node1 CANCELLED AT {TIME} ***",
]
CANCELLED = [
    f"slurmstepd-node1: error: *** STEP 1.0 ON node1 CANCELLED AT {TIME} ***",
    f"slurmstepd-node1: error: *** JOB 1 ON node1 CANCELLED AT {TIME} ***",
]
REQUEUED = [f"slurmstepd-node1: error: *** JOB 1 ON node1 CANCELLED AT {TIME} DUE TO JOB REQUEUE ***"]
DISPLACED = [f"slurmstepd-node1: error: *** JOB 1 ON node1 CANCELLED AT {TIME} DUE TO PREEMPTION ***"]
FULL = [
    "slurmstepd-node1: error: StepId=3.0 exceeded memory limit (429090816 > 209715200), being killed",
    "slurmstepd-node1: error: Exceeded job memory limit",
    f"slurmstepd-node1: error: *** STEP 3.0 ON node1 CANCELLED AT {TIME} ***",
]
FULL_BY_CGROUP = [
    "slurmstepd: error: Detected 1 oom_kill event in StepId=3.0. Some of the step tasks have been OOM Killed."
]
LOST = Ending(CRASHED, "the job ended before its ranks did", retry=True, cause=causes.LOST)
SAVED = Ending(STOPPED, "the ranks saved", retry=True, cause=causes.SIGNAL)


@pytest.mark.parametrize(
    ("ending", "lines", "cause"),
    [
        (LOST, CANCELLED, causes.CANCELLED),
        (SAVED, CANCELLED, causes.CANCELLED),
        (LOST, FULL, causes.OUT_OF_MEMORY),
        (LOST, FULL_BY_CGROUP, causes.OUT_OF_MEMORY),
        (LOST, KILLED_PEER, causes.LOST),
        (LOST, REQUEUED, causes.LOST),
        (SAVED, DISPLACED, causes.SIGNAL),
        (LOST, ["step 7: the corpus speaks of an oom_kill"], causes.LOST),
        (LOST, [], causes.LOST),
    ],
)
def test_the_last_lines_tell_who_ended_the_ranks(ending: Ending, lines: list[str], cause: str) -> None:
    assert heed_log(ending, lines).cause == cause


def test_the_program_s_own_error_stays() -> None:
    error = Ending(FAILED, "rank 0: no such dataset", 0, cause=causes.CONFIGURATION)
    assert heed_log(error, CANCELLED) == error


def test_what_a_killed_rank_printed_is_quoted_only_where_it_tells_of_an_error() -> None:
    assert not tells_of_error(["step 40/3000 | loss 3.9 | 12,000 tokens/s", "saved checkpoints/step_00000040 in 0.1 s"])
    for line in (
        "Fatal Python error: Segmentation fault",
        "srun: error: node1: task 3: Killed",
        "RuntimeError: CUDA error: an illegal memory access was encountered",
        "slurmstepd: error: Detected 1 oom_kill event in StepId=17.0",
    ):
        assert tells_of_error(["step 40/3000 | loss 3.9", line])
