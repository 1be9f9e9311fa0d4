"""Submit to, or attach to, whichever executor the cluster file names: one path for both."""

from __future__ import annotations

from neox_train.cluster import causes
from neox_train.cluster.jobs import Job
from neox_train.cluster.ledger import LOST, Attempt, Ledger
from neox_train.cluster.local_job import LocalJob
from neox_train.cluster.progress import MetricsTail
from neox_train.cluster.reporter import Reporter
from neox_train.cluster.slurm_job import SlurmJob
from neox_train.cluster.worker import ranks_lock
from neox_train.config.cluster import Cluster
from neox_train.config.layout import RunFolder
from neox_train.errors import LockHeldError, TrainingError
from neox_train.files import make_folder
from neox_train.locks import hold_lock

_OLD_RANKS_SECONDS = 60.0


def submit_job(run: RunFolder, cluster: Cluster, attempt: Attempt) -> Job:
    """Start one attempt, whose intent is written."""
    make_folder(run.path / attempt.folder)
    if cluster.executor == "slurm":
        return SlurmJob.submit(run, cluster, attempt)
    return LocalJob.submit(run, cluster, attempt.nodes, run.path / attempt.folder)


def attach_job(run: RunFolder, attempt: Attempt) -> Job | None:
    """The job of an attempt that an earlier process left open; None where it cannot be living.

    Local ranks end with their launcher, whose lock the caller holds now, so there is nothing to attach to. Raises
    SlurmSilentError while Slurm does not answer.
    """
    return SlurmJob.attach(run, attempt) if attempt.executor == "slurm" else None


def close_stale(run: RunFolder, ledger: Ledger, attempt: Attempt, reporter: Reporter) -> None:
    """Close an attempt whose launcher is gone, once the last of its ranks has ended."""
    try:
        with hold_lock(ranks_lock(run), wait_seconds=_OLD_RANKS_SECONDS, note="waiting for old ranks"):
            pass
    except LockHeldError as error:
        raise TrainingError(
            f"run {run.name}: ranks of job {attempt.job_id} on {attempt.host} still run though their launcher is gone; "
            "end those processes, then repeat the same command"
        ) from error
    tail = MetricsTail(run.metrics, since=attempt.submitted)
    tail.read(0)
    local = attempt.executor != "slurm"
    reason = f"its launcher on {attempt.host} ended" if local else "no such job was queued"
    ledger.close(attempt, LOST, causes.LAUNCHER_ENDED if local else causes.NOT_SUBMITTED, reason, tail.steps)
    reporter.say(f"attempt {attempt.number}: {reason}; continuing from the newest complete checkpoint")
