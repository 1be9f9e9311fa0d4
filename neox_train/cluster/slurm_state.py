"""Slurm's commands and its words for where a job is.

submitit asks the accounting alone, which many clusters lack, and takes a node failure for an end though Slurm starts
the job again.
"""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from neox_train.cluster.environment import clean_variables
from neox_train.cluster.jobs import ENDED, PENDING, RUNNING, JobState
from neox_train.errors import TrainingError

Command = Callable[[Sequence[str]], "Answer"]

COMMAND_SECONDS = 30.0
_CLOCKS_DIFFER_SECONDS = 900.0
_RUNNING_WORDS = {"RUNNING"}
_ENDED_WORDS = {"COMPLETED", "FAILED", "TIMEOUT", "CANCELLED", "OUT_OF_MEMORY", "DEADLINE", "BOOT_FAIL", "REVOKED"}
_LIMBO_WORDS = {"NODE_FAIL", "PREEMPTED"}
"""Slurm mostly queues these again within seconds."""

_ALL_STATES = "BF,CA,CD,DL,F,NF,OOM,PD,PR,R,RQ,RS,RV,S,TO"
"""sacct leaves out a job that was cancelled before it began unless it is given the states and the end of the time."""


class SlurmSilentError(TrainingError):
    """Slurm's controller does not answer: nothing is known, and nothing may be concluded."""

    retry = True


@dataclass(frozen=True)
class Answer:
    """Exit code and output of a Slurm command."""

    code: int
    out: str
    err: str


def run_command(command: Sequence[str]) -> Answer:
    """Run a Slurm command without the variables of an outer job; one that is missing or hangs counts as failed."""
    try:
        result = subprocess.run(
            list(command),
            capture_output=True,
            text=True,
            errors="replace",
            timeout=COMMAND_SECONDS,
            check=False,
            env=clean_variables(),
        )
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
    return state.phase == ENDED and state.word in _LIMBO_WORDS


def on_cluster(name: str | None) -> list[str]:
    """Option that sends a command to one cluster of a federation."""
    return ["-M", name] if name else []


def ask_accounting(
    job_id: str, since: float, cluster_name: str | None = None, run: Command = run_command
) -> JobState | None:
    """sacct's word on a job submitted after ``since`` (ids are reused after a reset); None without an answer."""
    options = ["-n", "-X", "-P", "-j", job_id, "-S", format_time(since), "-o", "State"]
    answer = run(["sacct", *on_cluster(cluster_name), *options])
    line = answer.out.strip().splitlines()[-1:]
    return classify(line[0]) if answer.code == 0 and line else None


def find_by_name(name: str, since: float, run: Command = run_command) -> str | None:
    """Id of the newest job of that name submitted after ``since``, ended or not; None when Slurm knows of none.

    Raises SlurmSilentError when squeue does not answer: a second job must not be submitted on a guess.
    """
    found = _ask_names(["-t", "all", "--name", name], run)
    if not found:
        window = ["-S", format_time(since), "-E", "now", "-s", _ALL_STATES]
        answer = run(["sacct", "-n", "-X", "-P", "--name", name, *window, "-o", "JobID"])
        found = _ids(answer.out) if answer.code == 0 else []
    return found[-1] if found else None


def find_living(name: str, run: Command = run_command) -> str | None:
    """Id of a job of that name that waits or runs; raises SlurmSilentError when squeue does not answer."""
    found = _ask_names(["--name", name], run)
    return found[-1] if found else None


def _ask_names(options: Sequence[str], run: Command) -> list[str]:
    answer = run(["squeue", "-h", "-a", "--me", *options, "-o", "%i"])
    if answer.code != 0:
        reason = (answer.err or answer.out).strip().splitlines()[:1]
        raise SlurmSilentError(f"squeue does not answer ({reason[0] if reason else 'no reason given'})")
    return _ids(answer.out)


def _ids(output: str) -> list[str]:
    return [word for word in output.split() if word.isdigit()]


def format_time(seconds: float) -> str:
    """A time since the epoch as Slurm reads it, early by more than the clocks of two hosts differ."""
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(seconds - _CLOCKS_DIFFER_SECONDS))
