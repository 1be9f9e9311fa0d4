"""The next attempt of a run: the job an earlier process left, or a new one, whose intent is written first."""

from __future__ import annotations

import contextlib
import secrets
import socket
import time
from dataclasses import dataclass
from pathlib import Path

from neox_train.cluster import causes
from neox_train.cluster import ledger as states
from neox_train.cluster.cancellation import require_not_cancelled
from neox_train.cluster.executors import attach_job, close_stale, submit_job
from neox_train.cluster.jobs import Job
from neox_train.cluster.ledger import Attempt, Ledger
from neox_train.cluster.queue_board import ask_interval_seconds
from neox_train.cluster.reporter import Reporter
from neox_train.cluster.resumable import require_start
from neox_train.cluster.sbatch import UnansweredSubmissionError, UnclearSubmissionError
from neox_train.cluster.slurm_state import SlurmSilentError
from neox_train.cluster.stop_signals import StopSignals
from neox_train.config.cluster import Cluster
from neox_train.config.layout import RunFolder
from neox_train.config.schema import NeoxConfig
from neox_train.errors import TrainingError
from neox_train.monitoring.provenance import write_provenance

_SILENCE_SECONDS = 3600.0
_UNANSWERED_SECONDS = 60.0
"""A controller too busy to answer sbatch may still take its job: so long is it looked for."""
_PAUSE_SECONDS = 5.0
_SUBMISSIONS = 3


@dataclass(frozen=True)
class Training:
    """One run and where it trains."""

    run: RunFolder
    cluster: Cluster
    nodes: int
    config: NeoxConfig

    @property
    def processes(self) -> int:
        """Number of ranks."""
        return self.nodes * self.cluster.processes_per_node


def find_or_submit(
    training: Training, ledger: Ledger, reporter: Reporter, signals: StopSignals, reason: str
) -> tuple[Job, Attempt]:
    """The living job of the newest attempt, else a new one; ``reason`` tells why it is submitted.

    A submission that Slurm did not answer is made again, at most twice, once it is known that it queued nothing. Raises
    what ``find_job`` and ``submit_attempt`` raise.
    """
    for left in reversed(range(_SUBMISSIONS)):
        if found := find_job(training.run, ledger, reporter, signals):
            return found
        try:
            return submit_attempt(training, ledger, reporter, reason)
        except UnansweredSubmissionError as error:
            if not left:
                raise
            reporter.say(f"attempt {len(ledger.attempts)}: {error}")
    raise AssertionError("the last submission returns or raises")


def find_job(run: RunFolder, ledger: Ledger, reporter: Reporter, signals: StopSignals) -> tuple[Job, Attempt] | None:
    """The living job of the newest attempt; None when there is none, and then no attempt is open any more.

    Waits while Slurm does not answer: nothing may be submitted before it is known that nothing is queued. Raises
    TrainingError when it stays silent for an hour, or a signal asks to leave.
    """
    last = ledger.last
    if last is None or not last.is_open:
        return None
    job = _look_until_known(run, last, reporter, signals)
    if job is None:
        close_stale(run, ledger, last, reporter)
        return None
    reporter.say(f"attached to job {job.job_id}")
    if last.job_id is None:
        last = _note_job(ledger, last, job)
    return job, last


def _look_until_known(run: RunFolder, attempt: Attempt, reporter: Reporter, signals: StopSignals) -> Job | None:
    began = time.monotonic()
    unanswered = bool(attempt.reason)
    while True:
        try:
            job = attach_job(run, attempt)
            if job is not None or not unanswered or time.monotonic() - began >= _UNANSWERED_SECONDS:
                return job
            unknown = f"sbatch's answer was lost, and job `{attempt.name}` is not queued yet"
        except SlurmSilentError as error:
            unknown = str(error)
        reporter.show(f"{unknown}; waiting, as job `{attempt.name}` may be queued")
        signals.pause(min(_PAUSE_SECONDS, ask_interval_seconds()))
        if signals.count or time.monotonic() - began > _SILENCE_SECONDS:
            raise TrainingError(f"run {run.name}: {unknown}; repeat the same command later")


def _note_job(ledger: Ledger, attempt: Attempt, job: Job) -> Attempt:
    known = {"job_id": job.job_id, "cluster_name": job.cluster_name, "state": states.RUNNING, "reason": ""}
    return ledger.update(attempt, **known)


def submit_attempt(training: Training, ledger: Ledger, reporter: Reporter, reason: str) -> tuple[Job, Attempt]:
    """Write the intent, then submit; raises TrainingError when the job was not taken, or the run is cancelled,
    CheckpointError when its checkpoints are of another configuration or dataset.
    """
    run, cluster = training.run, training.cluster
    require_not_cancelled(run)
    require_start(run, training.config)
    write_provenance(run, training.config, cluster)
    number = len(ledger.attempts) + 1
    attempt = ledger.add(
        Attempt(
            number=number,
            name=f"{run.name}-{training.config.training_digest()[:8]}-{secrets.token_hex(4)}",
            executor=cluster.executor,
            host=socket.gethostname(),
            nodes=training.nodes,
            processes=training.processes,
            folder=f"logs/attempt-{number:04}",
            submitted=time.time(),
        )
    )
    try:
        job = submit_job(run, cluster, attempt)
    except UnclearSubmissionError as error:
        attempt = ledger.update(attempt, reason=str(error))
        job = _find_after_all(run, attempt, error)
    except Exception as error:
        ledger.close(attempt, states.FAILED, causes.NOT_SUBMITTED, str(error), (None, None))
        raise
    attempt = _note_job(ledger, attempt, job)
    size = f"{training.nodes} x {cluster.processes_per_node} processes"
    reporter.say(f"job {job.job_id}, {size}, logs in {short_path(job.folder)} ({reason})")
    return job, attempt


def _find_after_all(run: RunFolder, attempt: Attempt, error: UnclearSubmissionError) -> Job:
    """The job of a submission without a clear answer; its attempt stays open when there is none yet."""
    with contextlib.suppress(SlurmSilentError):
        if job := attach_job(run, attempt):
            return job
    raise type(error)(f"run {run.name}: {error}") from error


def short_path(path: Path) -> Path:
    """Relative to the current folder where it lies inside."""
    with contextlib.suppress(ValueError):
        return path.absolute().relative_to(Path.cwd())
    return path
