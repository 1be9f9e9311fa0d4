"""How a job that saved and stopped goes on: rank 0 alone puts it back into the queue, under its id."""

from __future__ import annotations

import re
import sys
import time
from pathlib import Path

from neox_train.cluster import causes
from neox_train.cluster.job_note import JobNote
from neox_train.cluster.rank_record import RUNNING, read_start
from neox_train.cluster.rank_signals import signal_seen
from neox_train.cluster.slurm_state import run_command

_BARRIER_SECONDS = 60.0
_POLL_SECONDS = 0.2
_SLACK_SECONDS = 90.0
"""Slurm looks for jobs near their limit about once a minute."""


def ask_job(job_id: str) -> str:
    """What scontrol says of a job; empty where it does not answer, as in a container without Slurm's commands."""
    answer = run_command(["scontrol", "-o", "show", "job", job_id])
    return answer.out if answer.code == 0 else ""


def why_stopped(note: JobNote | None, facts: str, *, start: int, seconds: float) -> str:
    """Cause of a stop after ``seconds`` of the job's ``start``-th start, by its limit and Slurm's ``facts`` on it."""
    if "JobState=CANCELLED" in facts:
        return causes.CANCELLED
    restarts = re.search(r"Restarts=(\d+)", facts)
    if restarts and int(restarts.group(1)) > start:
        # Slurm itself has queued it again already.
        return causes.REQUEUED
    preempted = re.search(r"PreemptTime=(\S+)", facts)
    if preempted and preempted.group(1) not in ("None", "Unknown", "N/A"):
        return causes.PREEMPTED
    if note is None:
        return causes.SIGNAL
    limit_seconds = note.cluster.time_limit_minutes * 60
    if signal_seen() == "SIGTERM":
        return causes.TIME_LIMIT if seconds >= limit_seconds - _SLACK_SECONDS else causes.SIGNAL
    return causes.WALL if seconds >= limit_seconds - note.signal_lead_seconds - _SLACK_SECONDS else causes.SIGNAL


def requeue_job(folder: Path, job_id: str, processes: int, start: int) -> None:
    """Requeue once every rank has written its end: requeueing kills what still runs.

    A job that is being cancelled is left alone, as requeueing would bring it back. Where the command is not there or
    is refused, the follower submits the run anew.
    """
    _wait_for_all(folder, job_id, processes, start)
    facts = ask_job(job_id)
    # SIGNALING: it has some seconds of grace before it is displaced.
    if facts and not re.search(r"JobState=(RUNNING|SIGNALING)\b", facts):
        return
    answer = run_command(["scontrol", "requeue", job_id])
    if answer.code != 0:
        reason = answer.err.strip() or "no reason given"
        text = f"job {job_id} saved and stopped, and was not requeued ({reason}); `neox-train submit` continues it"
        print(text, file=sys.stderr, flush=True)


def _wait_for_all(folder: Path, job_id: str, processes: int, start: int) -> None:
    deadline = time.monotonic() + _BARRIER_SECONDS
    while time.monotonic() < deadline:
        records = read_start(folder, job_id, processes, start)
        if len(records) == processes and all(record.outcome != RUNNING for record in records.values()):
            return
        time.sleep(_POLL_SECONDS)
