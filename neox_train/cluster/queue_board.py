"""One squeue for all followers: its answer lies in a file that they share.

Twelve runs that each asked every few seconds would be a load that sites complain about.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from neox_train.cluster.slurm_state import Command, on_cluster, run_command
from neox_train.config.layout import RunFolder
from neox_train.errors import LockHeldError
from neox_train.files import read_json, write_json
from neox_train.locks import hold_lock

ASK_SECONDS = 15.0
ASK_VARIABLE = "NEOX_TRAIN_POLL_SECONDS"
"""Seconds between two questions to Slurm, for a site that wants fewer, or a test that wants more."""
_POSITIONS_SECONDS = 60.0
_WAIT_SECONDS = 90.0
_CLOCK_SECONDS = 2.0
_FIELDS = "%i|%T|%P|%S|%N|%j|%r"


@dataclass(frozen=True)
class QueueEntry:
    """A job as squeue shows it."""

    state: str
    reason: str
    partition: str
    start_estimate: str
    nodes: str
    name: str


@dataclass(frozen=True)
class QueueLook:
    """One answer of squeue. ``asked`` and ``answered`` are seconds since the epoch; ``error`` is empty where the last
    question was answered. ``waiting`` are the pending jobs of the partitions in use, highest priority first.
    """

    asked: float = 0.0
    answered: float = 0.0
    error: str = ""
    jobs: Mapping[str, QueueEntry] = field(default_factory=dict)
    waiting: Sequence[str] = ()
    waiting_asked: float = 0.0

    def position(self, job_id: str) -> tuple[int, int] | None:
        """Place of a pending job and the length of its queue, by priority; None where it is not known."""
        return (self.waiting.index(job_id) + 1, len(self.waiting)) if job_id in self.waiting else None


def ask_interval_seconds() -> float:
    """Seconds between two questions."""
    try:
        return float(os.environ.get(ASK_VARIABLE) or ASK_SECONDS)
    except ValueError:
        return ASK_SECONDS


class QueueBoard:
    """squeue's answer for this user, shared by every process that follows a run below one results folder."""

    def __init__(self, folder: Path, cluster_name: str | None = None, run: Command = run_command) -> None:
        self.file = folder / f"queue-{os.getuid()}{f'-{cluster_name}' if cluster_name else ''}.json"
        self._cluster = on_cluster(cluster_name)
        self._run = run

    @classmethod
    def of(cls, run: RunFolder, cluster_name: str | None = None) -> QueueBoard:
        """The board that all runs beside ``run`` share."""
        return cls(run.path.parent / ".slurm", cluster_name)

    def look(self, *, newer_than: float) -> QueueLook:
        """An answer asked for after ``newer_than`` (seconds since the epoch); one process asks, the others read it."""
        look = self._read()
        if _is_fresh(look, newer_than):
            return look
        try:
            with hold_lock(self.file.with_suffix(".lock"), note="asking squeue", wait_seconds=_WAIT_SECONDS):
                look = self._read()
                if not _is_fresh(look, newer_than):
                    look = self._ask(look)
                    write_json(self.file, asdict(look))
        except LockHeldError:
            return QueueLook(answered=look.answered, error="squeue does not return")
        return look

    def _read(self) -> QueueLook:
        try:
            content: dict[str, Any] = read_json(self.file) or {}
            jobs = {job_id: QueueEntry(**entry) for job_id, entry in content.pop("jobs", {}).items()}
            return QueueLook(**{**content, "waiting": tuple(content.get("waiting", ())), "jobs": jobs})
        except (ValueError, TypeError):
            return QueueLook()

    def _ask(self, before: QueueLook) -> QueueLook:
        asked = time.time()
        answer = self._run(["squeue", *self._cluster, "-h", "-a", "-t", "all", "--me", "-o", _FIELDS])
        if answer.code != 0:
            reason = (answer.err or answer.out).strip().splitlines()[:1]
            return QueueLook(asked, before.answered, reason[0] if reason else "squeue failed")
        jobs = dict(entry for line in answer.out.splitlines() if (entry := _read_line(line)))
        partitions = sorted({entry.partition for entry in jobs.values() if entry.state == "PENDING"})
        waiting, waiting_asked = before.waiting, before.waiting_asked
        if not partitions:
            waiting, waiting_asked = (), 0.0
        elif asked - waiting_asked >= _POSITIONS_SECONDS:
            waiting, waiting_asked = self._ask_waiting(partitions), asked
        return QueueLook(asked, asked, "", jobs, waiting, waiting_asked)

    def _ask_waiting(self, partitions: Sequence[str]) -> tuple[str, ...]:
        """Ids of all pending jobs there, as far as the site shows other people's."""
        options = ["-h", "-t", "PENDING", "-p", ",".join(partitions), "--sort=-p,i", "-o", "%i"]
        answer = self._run(["squeue", *self._cluster, *options])
        return tuple(answer.out.split()) if answer.code == 0 else ()


def _is_fresh(look: QueueLook, newer_than: float) -> bool:
    """An answer from the future is one of a host whose clock is ahead: nobody knows how old it is."""
    return newer_than <= look.asked <= time.time() + _CLOCK_SECONDS


def _read_line(line: str) -> tuple[str, QueueEntry] | None:
    parts = line.split("|", 6)
    if len(parts) != 7:
        return None
    job_id, state, partition, estimate, nodes, name, reason = parts
    return job_id, QueueEntry(state, reason.strip("()"), partition, estimate, nodes, name)
