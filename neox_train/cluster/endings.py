"""How an attempt ended, told from what its ranks wrote and from the scheduler's word."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from neox_train.cluster import causes, rank_record
from neox_train.cluster.jobs import JobState
from neox_train.cluster.rank_record import RankRecord, log_file

FINISHED = "finished"
STOPPED = "stopped"
FAILED = "failed"
CRASHED = "crashed"
CANCELLED = "cancelled"
INTERRUPTED = "interrupted"
DETACHED = "detached"

TAIL_LINES = 30

_OUT_OF_MEMORY = (
    "the ranks used more memory than the job was given, and Slurm killed them; set `memory_per_node` higher in the "
    "cluster file, or `train_micro_batch_size_per_gpu` lower"
)
_BY_WORD = {
    "NODE_FAIL": (CRASHED, causes.NODE_FAILURE, "a node failed, and Slurm did not start the job again"),
    "BOOT_FAIL": (CRASHED, causes.NODE_FAILURE, "a node did not boot"),
    "PREEMPTED": (STOPPED, causes.PREEMPTED, "another job displaced it, and Slurm did not queue it again"),
    "TIMEOUT": (CRASHED, causes.TIME_LIMIT, "the time limit passed before the ranks had saved and requeued"),
    "DEADLINE": (CRASHED, causes.TIME_LIMIT, "the job's deadline passed"),
    "OUT_OF_MEMORY": (CRASHED, causes.OUT_OF_MEMORY, _OUT_OF_MEMORY),
}


@dataclass(frozen=True)
class Ending:
    """``outcome`` and the reason in words; ``rank`` is the first one that failed, where one did."""

    outcome: str
    reason: str = ""
    rank: int | None = None
    retry: bool = False
    """Whether the same attempt made again could end otherwise."""
    cause: str = ""


def first_failure(records: Mapping[int, RankRecord], vanished: Sequence[int]) -> Ending | None:
    """The rank that failed first, None when none has.

    An error that is the user's to mend counts before all; then a rank that hangs; then one that vanished, which is the
    cause of the errors that its peers report; of several errors the earliest counts.
    """
    failed = sorted((r for r in records.values() if r.outcome == rank_record.FAILED), key=lambda r: r.ended or 0.0)
    if final := [record for record in failed if not record.retry]:
        return Ending(FAILED, final[0].sentence, final[0].rank, retry=False, cause=final[0].cause or causes.ERROR)
    if hanging := [record for record in failed if record.cause == causes.HANG]:
        return _hang(hanging, vanished, records)
    if vanished:
        return _vanished(vanished[0], records.get(vanished[0]))
    if failed:
        first = next((record for record in failed if record.cause != causes.RANK_LOST), failed[0])
        sentence = first.sentence if first.sentence.startswith("rank ") else f"rank {first.rank}: {first.sentence}"
        return Ending(FAILED, sentence, first.rank, retry=True, cause=first.cause or causes.ERROR)
    return None


def ending_of(records: Mapping[int, RankRecord], processes: int, state: JobState) -> Ending:
    """How a job that is over ended; ``state`` has the scheduler's word, if it has one."""
    outcomes = {record.outcome for record in records.values()}
    if len(records) == processes and outcomes == {rank_record.FINISHED}:
        return Ending(FINISHED, cause=causes.FINISHED)
    silent = [r for r in range(processes) if r not in records or records[r].outcome == rank_record.RUNNING]
    failure = first_failure(records, silent if len(silent) < processes else [])
    if failure and not failure.retry:
        return failure
    if state.word == "CANCELLED":
        return Ending(CANCELLED, f"the job was cancelled ({state.detail})", cause=causes.CANCELLED)
    if state.word in _BY_WORD:
        return ending_by_word(state.word)
    if rank_record.STOPPED in outcomes and not any(r.outcome == rank_record.FAILED for r in records.values()):
        # Requeueing, and the scheduler, may end a rank before it has written that it saved.
        stopped = next(record for record in records.values() if record.outcome == rank_record.STOPPED)
        if stopped.cause == causes.CANCELLED:
            return Ending(CANCELLED, "the job was cancelled, and its ranks had time to save", cause=causes.CANCELLED)
        return Ending(STOPPED, f"the ranks {stopped.sentence or 'stopped'}", retry=True, cause=stopped.cause)
    if failure:
        return failure
    word = f" ({state.detail})" if state.detail else ""
    cause = causes.LOST if state.word in ("", "GONE") else causes.ERROR
    return Ending(CRASHED, f"the job ended before its ranks did{word}", retry=True, cause=cause)


def ending_by_word(word: str, *, rank: int | None = None) -> Ending:
    """The ending that one of the scheduler's words means, such as ``NODE_FAIL``."""
    outcome, cause, reason = _BY_WORD[word]
    return Ending(outcome, reason, rank, retry=True, cause=cause)


def _hang(hanging: Sequence[RankRecord], vanished: Sequence[int], records: Mapping[int, RankRecord]) -> Ending:
    """Blame the rank that the others wait for: one that says nothing, else one that is not waiting itself, else one
    that only noticed later that the others are gone, or that there was no progress: its watch stood still with it.
    """
    told = hanging[0]
    busy = [record for record in hanging if "waiting for other ranks" not in record.sentence]
    if busy and not vanished:
        return Ending(FAILED, busy[0].sentence, busy[0].rank, retry=True, cause=causes.HANG)
    lost = [record.rank for record in records.values() if record.cause == causes.RANK_LOST]
    if not vanished and not lost:
        return Ending(FAILED, hanging[-1].sentence, hanging[-1].rank, retry=True, cause=causes.HANG)
    rank = next(iter([*vanished, *sorted(lost)]))
    record = records.get(rank)
    where = f" (process {record.pid} on {record.host})" if record else ""
    return Ending(FAILED, f"rank {rank}{where} hung: {told.sentence}", rank, retry=True, cause=causes.HANG)


def _vanished(rank: int, record: RankRecord | None) -> Ending:
    where = f" (process {record.pid} on {record.host})" if record else " before it started training"
    reason = f"rank {rank}{where} ended without a word: killed, or out of memory"
    return Ending(CRASHED, reason, rank, retry=True, cause=causes.RANK_KILLED)


def log_tail(folder: Path, job_id: str, rank: int) -> list[str]:
    """The last lines that a rank printed; empty where it printed nothing."""
    try:
        with open(log_file(folder, job_id, rank), "rb") as stream:
            stream.seek(max(0, stream.seek(0, 2) - 64 * 1024))
            text = stream.read().decode("utf-8", errors="replace")
    except FileNotFoundError:
        return []
    return text.splitlines()[-TAIL_LINES:]
