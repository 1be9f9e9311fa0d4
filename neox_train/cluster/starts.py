"""The starts of one job: Slurm queues a job again under its id, and every start had its own ending."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from neox_train.cluster import causes
from neox_train.cluster.endings import CRASHED, Ending, ending_of
from neox_train.cluster.jobs import ENDED, JobState
from neox_train.cluster.rank_record import RankRecord, list_starts, log_file, read_start
from neox_train.cluster.slurm_state import Command, on_cluster, run_command

_SLURM_WORDS = {
    "NODE_FAIL": (causes.NODE_FAILURE, "a node failed"),
    "NODE FAILURE": (causes.NODE_FAILURE, "a node failed"),
    "PREEMPTED": (causes.PREEMPTED, "another job displaced it"),
    "PREEMPTION": (causes.PREEMPTED, "another job displaced it"),
    "TIME LIMIT": (causes.TIME_LIMIT, "the time limit passed before the ranks had saved"),
}
_STEP_DAEMON = re.compile(rb"\*\*\* (?:JOB|STEP) [\d.]+ ON \S+ CANCELLED AT (\S+) DUE TO ([A-Z ]+)")
_VAGUE = (causes.SIGNAL, causes.REQUEUED)
_LATE_SECONDS = 5.0


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
    starts = {start: read_start(folder, job_id, processes, start) for start in list_starts(folder, job_id)}
    began = [min(record.started for record in records.values()) for records in starts.values()]
    words = _read_words(log_file(folder, job_id, 0))
    entries = []
    for (start, records), first, after in zip(starts.items(), began, [*began[1:], math.inf], strict=True):
        if after < math.inf or is_over:
            told = next((word for time, word in words if first <= time + _LATE_SECONDS < after), None)
            ending = ending_of(records, processes, JobState(ENDED))
            if told and (ending.outcome == CRASHED or ending.cause in _VAGUE):
                ending = Ending(ending.outcome, _SLURM_WORDS[told][1], retry=True, cause=_SLURM_WORDS[told][0])
            elif ending.outcome == CRASHED or ending.cause == causes.REQUEUED:
                # Ranks that were killed, or told to stop, do not know why: Slurm knows more, if it keeps records.
                ending = _ask_slurm(start, records, job_id, cluster_name, run) or ending
            entries.append(_entry(start, records, first, ending))
    return entries


def _entry(start: int, records: Mapping[int, RankRecord], began: float, ending: Ending) -> dict[str, Any]:
    ended = [record.ended for record in records.values() if record.ended is not None]
    return {
        "start": start,
        "began": began,
        "ended": max(ended, default=None),
        "step": records[0].step if 0 in records else None,
        "cause": ending.cause,
        "reason": ending.reason,
    }


def _read_words(log: Path) -> list[tuple[float, str]]:
    """Time and cause of every end that Slurm's step daemons wrote into the log; without any accounting."""
    try:
        lines = [line for line in log.read_bytes().splitlines() if b"*** " in line]
    except FileNotFoundError:
        return []
    found = (_STEP_DAEMON.search(line) for line in lines)
    words = [(_parse_time(match.group(1).decode()), match.group(2).decode().strip()) for match in found if match]
    return [(time, word) for time, word in words if word in _SLURM_WORDS]


def _parse_time(text: str) -> float:
    try:
        return datetime.fromisoformat(text).timestamp()
    except ValueError:
        return 0.0


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
