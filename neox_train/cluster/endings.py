"""How an attempt ended, told from what its ranks wrote."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from neox_train.cluster import rank_record
from neox_train.cluster.rank_record import RankRecord, log_file

FINISHED = "finished"
STOPPED = "stopped"
FAILED = "failed"
CRASHED = "crashed"
INTERRUPTED = "interrupted"
DETACHED = "detached"

TAIL_LINES = 30


@dataclass(frozen=True)
class Ending:
    """``outcome`` and the reason in words; ``rank`` is the first one that failed, where one did."""

    outcome: str
    reason: str = ""
    rank: int | None = None
    retry: bool = False
    """Whether the same attempt made again could end otherwise."""


def first_failure(records: Mapping[int, RankRecord], vanished: Sequence[int]) -> Ending | None:
    """The rank that failed first, None when none has.

    A rank that vanished is the cause of the errors that its peers report, unless one of them names a user's error;
    of several errors the earliest counts.
    """
    failed = sorted((r for r in records.values() if r.outcome == rank_record.FAILED), key=lambda r: r.ended or 0.0)
    final = [record for record in failed if not record.retry]
    if final:
        return Ending(FAILED, final[0].sentence, final[0].rank, retry=False)
    if vanished:
        return _vanished(vanished[0], records.get(vanished[0]))
    if failed:
        return Ending(FAILED, f"rank {failed[0].rank}: {failed[0].sentence}", failed[0].rank, retry=True)
    return None


def ending_of(records: Mapping[int, RankRecord], processes: int, detail: str) -> Ending:
    """How a job that is over ended; ``detail`` is the scheduler's word, if it has one."""
    silent = [r for r in range(processes) if r not in records or records[r].outcome == rank_record.RUNNING]
    if failure := first_failure(records, silent if len(silent) < processes else []):
        return failure
    if silent:
        word = f" ({detail})" if detail else ""
        return Ending(CRASHED, f"the job ended before its ranks did{word}", retry=True)
    outcomes = {record.outcome for record in records.values()}
    if outcomes == {rank_record.FINISHED}:
        return Ending(FINISHED)
    return Ending(STOPPED, "the ranks were asked to stop, and saved", retry=True)


def _vanished(rank: int, record: RankRecord | None) -> Ending:
    where = f" (process {record.pid} on {record.host})" if record else " before it started training"
    return Ending(CRASHED, f"rank {rank}{where} ended without a word: killed, or out of memory", rank, retry=True)


def log_tail(folder: Path, job_id: str, rank: int) -> list[str]:
    """The last lines that a rank printed; empty where it printed nothing."""
    try:
        with open(log_file(folder, job_id, rank), "rb") as stream:
            stream.seek(max(0, stream.seek(0, 2) - 64 * 1024))
            text = stream.read().decode("utf-8", errors="replace")
    except FileNotFoundError:
        return []
    return text.splitlines()[-TAIL_LINES:]
