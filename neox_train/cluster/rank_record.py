"""What each rank says about itself: a file when it starts, rewritten when it ends.

The follower reads these files, so that it needs neither the scheduler's accounting nor a pickle to know which rank
ended first and why. A job that Slurm queued again starts again under its id: each start has its own files.
"""

from __future__ import annotations

import os
import re
import socket
import threading
import time
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from neox_train.errors import StorageError
from neox_train.files import read_record, write_json

RUNNING = "running"
FINISHED = "finished"
STOPPED = "stopped"
FAILED = "failed"
_WRITING = threading.Lock()
_STARTED = re.compile(r"(\d+)_(?:submitted\.pkl|\d+_start\d+_rank\.json)")


@dataclass(frozen=True)
class RankRecord:
    """One rank of one start of a job; times are seconds since the epoch, ``ended`` None while it runs."""

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
    cause: str = ""
    """Why it ended, in a word of neox_train.cluster.endings."""
    step: int = 0
    """Last step that metrics.jsonl had when the rank started."""

    @classmethod
    def begin(cls, folder: Path, job_id: str, rank: int, start: int, *, step: int = 0) -> RankRecord:
        """Write and return the record of the calling process at the job's ``start``-th start."""
        host = os.environ.get("SLURMD_NODENAME") or socket.gethostname()
        record = cls(rank, host, os.getpid(), start, time.time(), step=step)
        write_json(record_file(folder, job_id, rank, start), asdict(record))
        return record

    def end(
        self, folder: Path, job_id: str, outcome: str, sentence: str = "", *, retry: bool = True, cause: str = ""
    ) -> None:
        """Write how the rank ended; a failure after a failure is its consequence, and is left out.

        Threads may call it at once: the one that watches for stalls, and the main one.
        """
        ended = replace(self, outcome=outcome, ended=time.time(), sentence=sentence, retry=retry, cause=cause)
        file = record_file(folder, job_id, self.rank, self.start)
        with _WRITING:
            before = read_record(file) or {}
            if outcome != FAILED or before.get("ended") is None:
                write_json(file, asdict(ended))


def record_file(folder: Path, job_id: str, rank: int, start: int = 0) -> Path:
    """The file of one rank at one start, in a job's log folder."""
    return folder / f"{job_id}_{rank}_start{start}_rank.json"


def log_file(folder: Path, job_id: str, rank: int) -> Path:
    """What a rank printed: submitit's name for it (both streams)."""
    return folder / f"{job_id}_{rank}_log.out"


def list_starts(folder: Path, job_id: str) -> list[int]:
    """Starts of a job that any rank has reached, oldest first."""
    pattern = re.compile(rf"{re.escape(job_id)}_\d+_start(\d+)_rank\.json")
    try:
        names = os.listdir(folder)
    except FileNotFoundError:
        return []
    return sorted({int(match.group(1)) for name in names if (match := pattern.fullmatch(name))})


def find_job_id(folder: Path) -> str | None:
    """Id of the job that has started in an attempt's log folder; None before it starts."""
    try:
        names = os.listdir(folder)
    except FileNotFoundError:
        return None
    ids = {int(match.group(1)) for name in names if (match := _STARTED.fullmatch(name))}
    return str(max(ids)) if ids else None


def read_start(folder: Path, job_id: str, processes: int, start: int) -> dict[int, RankRecord]:
    """Records by rank of one start, of those ranks that have reached it."""
    files = ((rank, record_file(folder, job_id, rank, start)) for rank in range(processes))
    return {rank: record for rank, file in files if (record := _read_file(file)) is not None}


def _read_file(file: Path) -> RankRecord | None:
    value = read_record(file)
    try:
        return None if value is None else RankRecord(**value)
    except TypeError as error:
        raise StorageError(f"{file} is no rank's record ({error}); move it away, then repeat") from error


def read_beginnings(folder: Path, job_id: str, processes: int) -> list[float]:
    """When the first rank of each of a job's starts began, oldest first."""
    starts = (read_start(folder, job_id, processes, start) for start in list_starts(folder, job_id))
    return [min(record.started for record in records.values()) for records in starts if records]


def read_records(folder: Path, job_id: str, processes: int) -> dict[int, RankRecord]:
    """Records by rank of the job's newest start; empty before the first."""
    starts = list_starts(folder, job_id)
    return read_start(folder, job_id, processes, starts[-1]) if starts else {}
