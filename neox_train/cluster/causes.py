"""The words under which job.json files how an attempt, or one start of it, ended."""

from __future__ import annotations

from neox_train.errors import (
    ConfigError,
    NonFiniteError,
    PeerLostError,
    PreflightError,
    StorageError,
    TrainingError,
    UserError,
)

FINISHED = "finished"
WALL = "wall"
"""The time limit came near: the ranks saved, and the job was queued again."""
TIME_LIMIT = "time limit"
"""The time limit passed before the ranks had saved."""
PREEMPTED = "preempted"
SIGNAL = "signal"
"""Someone asked the ranks to save and stop."""
NODE_FAILURE = "node failure"
RANK_KILLED = "rank killed"
"""A process ended without a word: kill -9, or the machine's memory was full."""
OUT_OF_MEMORY = "out of memory"
"""Slurm killed ranks that took more of a node's memory than the job was given."""
RANK_LOST = PeerLostError.cause
HANG = "hang"
NOT_FINITE = NonFiniteError.cause
CONFIGURATION = UserError.cause
STORAGE = StorageError.cause
PREFLIGHT = PreflightError.cause
ERROR = TrainingError.cause
CANCELLED = "cancelled"
LOST = "lost"
"""Slurm no longer knows the job, and no rank has said how it ended."""
NOT_SUBMITTED = "not submitted"
LAUNCHER_ENDED = "launcher ended"
REQUEUED = "requeued"
"""Slurm started the job again, and nothing tells why."""


def name_error(cause: str, sentence: str) -> UserError:
    """The error whose exit code says of a training what the same fault says before it: 2 a file or key, 4 the disk."""
    kinds: dict[str, type[UserError]] = {CONFIGURATION: ConfigError, STORAGE: StorageError}
    return kinds.get(cause, TrainingError)(sentence)
