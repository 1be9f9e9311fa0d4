"""Where a Slurm job is, asked of squeue and, for older jobs, of the accounting.

submitit asks the accounting alone, which many clusters lack, and takes a node failure for an end though Slurm starts
the job again.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from neox_train.cluster.jobs import ENDED, PENDING, RUNNING, JobState

Command = Callable[[Sequence[str]], "Answer"]

_RUNNING_WORDS = {"RUNNING"}
_ENDED_WORDS = {"COMPLETED", "FAILED", "TIMEOUT", "CANCELLED", "OUT_OF_MEMORY", "DEADLINE", "BOOT_FAIL", "REVOKED"}
_LIMBO_WORDS = {"NODE_FAIL", "PREEMPTED"}
"""Slurm mostly queues these again within seconds."""


@dataclass(frozen=True)
class Answer:
    """Exit code and output of a Slurm command."""

    code: int
    out: str
    err: str


def run_command(command: Sequence[str]) -> Answer:
    """Run a Slurm command; one that is missing or hangs counts as failed."""
    try:
        result = subprocess.run(list(command), capture_output=True, text=True, timeout=60, check=False)
    except (FileNotFoundError, subprocess.TimeoutExpired) as error:
        return Answer(127, "", str(error))
    return Answer(result.returncode, result.stdout, result.stderr)


def classify(word: str, reason: str = "") -> JobState:
    """Phase of one of Slurm's state words, such as ``CANCELLED by 1000`` or ``NODE_FAIL``."""
    name = word.split()[0].rstrip("+") if word.split() else ""
    detail = name if reason in ("", "None") else f"{name} ({reason})"
    if name in _ENDED_WORDS or name in _LIMBO_WORDS:
        return JobState(ENDED, detail)
    return JobState(RUNNING if name in _RUNNING_WORDS else PENDING, detail)


def is_limbo(state: JobState) -> bool:
    """Whether the job ended in a way that Slurm often undoes by queueing it again."""
    return state.phase == ENDED and state.detail.split(" ")[0] in _LIMBO_WORDS


def on_cluster(name: str | None) -> list[str]:
    """Option that sends a command to one cluster of a federation."""
    return ["-M", name] if name else []


def ask_queue(job_id: str, cluster_name: str | None = None, run: Command = run_command) -> JobState | None:
    """squeue's word on a job; None when it no longer knows the id or does not answer."""
    answer = run(["squeue", *on_cluster(cluster_name), "-h", "-a", "-t", "all", "-j", job_id, "-o", "%T|%r"])
    # With -M the first line names the cluster.
    line = [text for text in answer.out.splitlines() if "|" in text][:1]
    if answer.code != 0 or not line:
        return None
    word, _, reason = line[0].partition("|")
    return classify(word, reason)


def ask_accounting(
    job_id: str, since: str, cluster_name: str | None = None, run: Command = run_command
) -> JobState | None:
    """sacct's word on a job submitted after ``since`` (ids are reused after a reset); None without an answer."""
    answer = run(["sacct", *on_cluster(cluster_name), "-n", "-X", "-P", "-j", job_id, "-S", since, "-o", "State"])
    line = answer.out.strip().splitlines()[-1:]
    return classify(line[0]) if answer.code == 0 and line else None


def find_by_name(name: str, run: Command = run_command) -> str | None:
    """Id of the newest job of that name, by squeue and then by sacct; None when neither knows one."""
    for command in (
        ["squeue", "-h", "-a", "-t", "all", "--me", "--name", name, "-o", "%i"],
        ["sacct", "-n", "-X", "-P", "--name", name, "-o", "JobID"],
    ):
        answer = run(command)
        if answer.code == 0 and answer.out.split():
            return answer.out.split()[-1]
    return None
