"""A run that a person cancelled: marked, so that no command submits it again until the mark is taken away."""

from __future__ import annotations

import getpass
import time
from pathlib import Path

from neox_train.cluster.ledger import Ledger
from neox_train.cluster.slurm_job import SlurmJob
from neox_train.config.layout import RunFolder
from neox_train.errors import TrainingError
from neox_train.files import read_json, write_json


def mark_file(run: RunFolder) -> Path:
    """The mark of a run."""
    return run.path / "cancelled.json"


def mark_cancelled(run: RunFolder, *, job_id: str | None, reason: str) -> None:
    """Write the mark."""
    mark = {"job_id": job_id, "time": time.time(), "user": getpass.getuser(), "reason": reason}
    write_json(mark_file(run), mark)


def clear_mark(run: RunFolder) -> bool:
    """Take the mark away; whether there was one."""
    existed = mark_file(run).is_file()
    mark_file(run).unlink(missing_ok=True)
    return existed


def is_cancelled(run: RunFolder) -> bool:
    """Whether the run has a mark."""
    return mark_file(run).is_file()


def require_not_cancelled(run: RunFolder) -> None:
    """Raise TrainingError where the run has a mark."""
    mark = read_json(mark_file(run))
    if mark is None:
        return
    when = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(mark["time"]))
    job = f", job {mark['job_id']}" if mark.get("job_id") else ""
    raise TrainingError(
        f"run {run.name} was cancelled ({when}{job}: {mark['reason']}), so it is not submitted again; "
        f"`neox-train cancel {run.name} --undo` allows it, and the same command then continues it"
    )


def cancel_run(run: RunFolder) -> str:
    """Mark the run, then cancel its living job; what was done, in a sentence.

    The mark comes first: a follower that sees the job end must find it. Raises TrainingError when the job's end cannot
    be had, and the mark stays then.
    """
    last = Ledger(run.ledger).last
    mark_cancelled(run, job_id=last.job_id if last else None, reason="neox-train cancel")
    again = f"`neox-train cancel {run.name} --undo` allows it to be submitted again"
    if last is None or not last.is_open:
        return f"run {run.name} has no job; it is not submitted any more ({again})"
    if last.executor != "slurm":
        raise TrainingError(
            f"run {run.name} trains on {last.host} without Slurm; end its launcher there (Ctrl-C): it saves and stops"
        )
    job = SlurmJob.attach(run, last)
    if job is None:
        return f"run {run.name} was about to be submitted; no job `{last.name}` is queued ({again})"
    job.end()
    return f"job {job.job_id} of run {run.name} is cancelled ({again})"
