"""What the follower needs of a job, wherever it runs."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

PENDING = "pending"
RUNNING = "running"
ENDED = "ended"
UNKNOWN = "unknown"
"""The scheduler does not answer: nothing may be concluded."""


@dataclass(frozen=True)
class JobState:
    """``phase`` is pending, running, ended or unknown; ``detail`` is the scheduler's word, and more for a person."""

    phase: str
    detail: str = ""

    @property
    def word(self) -> str:
        """The scheduler's word alone, such as ``CANCELLED``."""
        return self.detail.split()[0] if self.detail else ""


class Job(Protocol):
    """A submitted training job."""

    job_id: str
    cluster_name: str | None
    """Cluster of a Slurm federation that took the job; None elsewhere."""
    folder: Path
    """Log folder: the ranks' records and what they printed."""
    processes: int
    survives_launcher: bool
    """Whether the job goes on when nobody follows it."""
    poll_seconds: float

    def state(self) -> JobState:
        """Ask where the job is."""

    def vanished_ranks(self) -> list[int]:
        """Ranks whose process is gone though they have written no end."""

    def ends_with_its_first_rank(self) -> bool:
        """Whether the scheduler itself ends all ranks when one fails."""

    def request_stop(self) -> None:
        """Ask every rank to save and stop; returns at once."""

    def end(self) -> None:
        """End every rank now and wait until they are gone."""
