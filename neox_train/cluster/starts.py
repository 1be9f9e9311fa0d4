"""The starts of one job: Slurm queues a job again under its id, and every start had its own ending."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from neox_train.cluster import causes
from neox_train.cluster.endings import CRASHED, Ending, ending_of
from neox_train.cluster.jobs import ENDED, JobState
from neox_train.cluster.rank_record import RankRecord, list_starts, read_start
from neox_train.cluster.slurm_state import Command, on_cluster, run_command

_SLURM_WORDS = {
    "NODE_FAIL": (causes.NODE_FAILURE, "a node failed"),
    "PREEMPTED": (causes.PREEMPTED, "another job displaced it"),
}


def describe_starts(
    folder: Path,
    job_id: str,
    processes: int,
    *,
    is_over: bool,
    cluster_name: str | None = None,
    run: Command = run_command,
) -> list[dict[str, Any]]:
    """One entry for every start that is over, oldest first; the newest is over when the job is (``is_over``)."""
    starts = list_starts(folder, job_id)
    over = starts if is_over else starts[:-1]
    return [
        _describe(start, read_start(folder, job_id, processes, start), processes, job_id, cluster_name, run)
        for start in over
    ]


def _describe(
    start: int,
    records: Mapping[int, RankRecord],
    processes: int,
    job_id: str,
    cluster_name: str | None,
    run: Command,
) -> dict[str, Any]:
    ending = ending_of(records, processes, JobState(ENDED))
    if ending.outcome == CRASHED:
        # Ranks that were killed have written nothing: Slurm knows more, if it keeps records.
        ending = _ask_slurm(start, records, job_id, cluster_name, run) or ending
    ended = [record.ended for record in records.values() if record.ended is not None]
    return {
        "start": start,
        "began": min(record.started for record in records.values()),
        "ended": max(ended, default=None),
        "step": records[0].step if 0 in records else None,
        "cause": ending.cause,
        "reason": ending.reason,
    }


def _ask_slurm(
    start: int, records: Mapping[int, RankRecord], job_id: str, cluster_name: str | None, run: Command
) -> Ending | None:
    option = on_cluster(cluster_name)
    answer = run(["sacct", *option, "-n", "-X", "-P", "-D", "-j", job_id, "-o", "State"])
    words = answer.out.split("\n") if answer.code == 0 else []
    if start < len(words) and (told := _SLURM_WORDS.get(words[start].split(" ")[0])):
        return Ending(CRASHED, told[1], retry=True, cause=told[0])
    hosts = ",".join(sorted({record.host for record in records.values()}))
    answer = run(["sinfo", *option, "-h", "-N", "-n", hosts, "-t", "down,no_respond,fail", "-o", "%N"])
    if answer.code == 0 and (down := sorted(set(answer.out.split()))):
        return Ending(CRASHED, f"node {', '.join(down)} failed", retry=True, cause=causes.NODE_FAILURE)
    answer = run(["scontrol", *option, "-o", "show", "job", job_id])
    if answer.code == 0 and "PreemptTime=" in answer.out and "PreemptTime=None" not in answer.out:
        return Ending(CRASHED, "another job displaced it", retry=True, cause=causes.PREEMPTED)
    if not any(record.outcome == "failed" for record in records.values()):
        reason = "Slurm queued the job again before its ranks could say why"
        return Ending(CRASHED, reason, retry=True, cause=causes.REQUEUED)
    return None
