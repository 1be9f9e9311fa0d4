"""job.json: every attempt to train a run, with its job and why it ended."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from neox_train.cluster import causes
from neox_train.errors import TrainingError
from neox_train.files import read_record, write_json

SUBMITTING = "submitting"
RUNNING = "running"
FINISHED = "finished"
STOPPED = "stopped"
FAILED = "failed"
LOST = "lost"
CANCELLED = "cancelled"
OPEN_STATES = (SUBMITTING, RUNNING)
_INTENT = "attempt.json"
"""Beside an attempt's logs: the attempt as it was meant, should the ledger be lost."""


@dataclass(frozen=True)
class Attempt:
    """One job of a run; times are seconds since the epoch, steps count optimizer steps done."""

    number: int
    name: str
    executor: str
    host: str
    nodes: int
    processes: int
    folder: str
    """Log folder, relative to the run's folder."""
    submitted: float
    state: str = SUBMITTING
    job_id: str | None = None
    cluster_name: str | None = None
    """Cluster of a Slurm federation that took the job."""
    started: float | None = None
    """When the first rank began: what lies before it is the queue."""
    resumed: float | None = None
    """When the first rank of the newest start began, where Slurm queued the job again."""
    ended: float | None = None
    cause: str = ""
    """Why it ended, in a word of neox_train.cluster.causes; ``reason`` is the sentence."""
    reason: str = ""
    first_step: int | None = None
    last_step: int | None = None
    starts: tuple[dict[str, Any], ...] = ()
    """Earlier starts of the same job, which Slurm queued again: number, times, step it began at, cause, reason."""

    @property
    def is_open(self) -> bool:
        """Whether nothing is known yet of the attempt's end."""
        return self.state in OPEN_STATES


class Ledger:
    """The attempts of one run, oldest first; every change is written at once.

    Where the file is gone the log folders tell what was meant: the newest attempt is open then, as its job may live.
    """

    def __init__(self, file: Path) -> None:
        self.file = file
        content = read_record(file) or {"attempts": _read_intents(file.parent)}
        try:
            self.attempts = [_read_attempt(attempt) for attempt in content["attempts"]]
        except (KeyError, TypeError) as error:
            raise TrainingError(
                f"{file} is not a ledger of this program ({error}); move it away: the log folders tell the attempts too"
            ) from error

    def is_there(self) -> bool:
        """Whether the file is, or at least the newest attempt's own record: one alone can be lost."""
        last = self.last
        return self.file.exists() or (last is not None and (self.file.parent / last.folder / _INTENT).exists())

    @property
    def last(self) -> Attempt | None:
        """The newest attempt."""
        return self.attempts[-1] if self.attempts else None

    def add(self, attempt: Attempt) -> Attempt:
        """Append an attempt: written before its job exists, so that a job without a record cannot be."""
        write_json(self.file.parent / attempt.folder / _INTENT, asdict(attempt))
        self.attempts.append(attempt)
        self._write()
        return attempt

    def update(self, attempt: Attempt, **changes: Any) -> Attempt:
        """Replace fields of an attempt and return the new one."""
        changed = replace(attempt, **changes)
        self.attempts[self.attempts.index(attempt)] = changed
        self._write()
        return changed

    def close(
        self, attempt: Attempt, state: str, cause: str, reason: str, steps: tuple[int | None, int | None]
    ) -> Attempt:
        """Write how an attempt ended and the steps it logged."""
        first, last = steps
        changes = {"state": state, "cause": cause, "reason": reason, "first_step": first, "last_step": last}
        return self.update(attempt, ended=time.time(), **changes)

    def furthest_step(self) -> int:
        """The highest step that any ended attempt reached; 0 before the first."""
        return max((attempt.last_step or 0 for attempt in self.attempts), default=0)

    def __iter__(self) -> Iterator[Attempt]:
        return iter(self.attempts)

    def _write(self) -> None:
        write_json(
            self.file, {"run": self.file.parent.name, "attempts": [asdict(attempt) for attempt in self.attempts]}
        )


def _read_attempt(fields: dict[str, Any]) -> Attempt:
    return Attempt(**{**fields, "starts": tuple(fields.get("starts", ()))})


def _read_intents(run_folder: Path) -> list[dict[str, Any]]:
    files = sorted(run_folder.glob(f"logs/attempt-*/{_INTENT}"))
    intents = [fields for file in files if (fields := read_record(file))]
    lost = {"state": LOST, "cause": causes.LOST, "reason": "job.json was lost; the logs tell more"}
    return [{**fields, **lost} for fields in intents[:-1]] + intents[-1:]
