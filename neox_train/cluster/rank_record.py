"""What each rank says about itself: a file when it starts, rewritten when it ends.

The follower reads these files, so that it needs neither the scheduler's accounting nor a pickle to know which rank
ended first and why.
"""

from __future__ import annotations

import os
import socket
import time
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from neox_train.files import read_json, write_json

RUNNING = "running"
FINISHED = "finished"
STOPPED = "stopped"
FAILED = "failed"


@dataclass(frozen=True)
class RankRecord:
    """One rank of one job; times are seconds since the epoch, ``ended`` None while it runs."""

    rank: int
    host: str
    pid: int
    start: int
    started: float
    outcome: str = RUNNING
    ended: float | None = None
    sentence: str = ""
    retry: bool = True
    """Whether another start can help: False after an error that is the user's to mend."""

    @classmethod
    def begin(cls, folder: Path, job_id: str, rank: int, start: int) -> RankRecord:
        """Write and return the record of the calling process at the job's ``start``-th start."""
        record = cls(rank, socket.gethostname(), os.getpid(), start, time.time())
        write_json(record_file(folder, job_id, rank), asdict(record))
        return record

    def end(self, folder: Path, job_id: str, outcome: str, sentence: str = "", *, retry: bool = True) -> None:
        """Write how the rank ended."""
        ended = replace(self, outcome=outcome, ended=time.time(), sentence=sentence, retry=retry)
        write_json(record_file(folder, job_id, self.rank), asdict(ended))


def record_file(folder: Path, job_id: str, rank: int) -> Path:
    """The file of one rank in a job's log folder."""
    return folder / f"{job_id}_{rank}_rank.json"


def log_file(folder: Path, job_id: str, rank: int) -> Path:
    """What a rank printed: submitit's name for it (both streams)."""
    return folder / f"{job_id}_{rank}_log.out"


def read_records(folder: Path, job_id: str, processes: int) -> dict[int, RankRecord]:
    """Records by rank, of those ranks that have started."""
    found = ((rank, read_json(record_file(folder, job_id, rank))) for rank in range(processes))
    return {rank: RankRecord(**value) for rank, value in found if value is not None}
