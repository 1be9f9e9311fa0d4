"""Train one run to its end: submit or attach, follow, start again while there is progress."""

from __future__ import annotations

import contextlib
import socket
import time
from dataclasses import dataclass
from pathlib import Path

from neox_train.cluster import ledger as states
from neox_train.cluster.completion import read_run_config, steps_wanted, unfinished_reason, write_trained
from neox_train.cluster.endings import DETACHED, FAILED, FINISHED, INTERRUPTED, STOPPED, Ending
from neox_train.cluster.executors import attach_job, close_stale, submit_job
from neox_train.cluster.follow import follow_job
from neox_train.cluster.jobs import Job
from neox_train.cluster.ledger import Attempt, Ledger
from neox_train.cluster.other import follow_other
from neox_train.cluster.progress import MetricsTail
from neox_train.cluster.reporter import Reporter
from neox_train.cluster.restart import reason_to_give_up
from neox_train.cluster.stop_signals import StopSignals
from neox_train.config.cluster import Cluster
from neox_train.config.layout import RunFolder
from neox_train.config.schema import NeoxConfig
from neox_train.errors import ConfigError, LockHeldError, TrainingError
from neox_train.locks import hold_lock
from neox_train.monitoring.provenance import write_provenance


@dataclass(frozen=True)
class Training:
    """One run and where it trains."""

    run: RunFolder
    cluster: Cluster
    nodes: int

    @property
    def processes(self) -> int:
        """Number of ranks."""
        return self.nodes * self.cluster.processes_per_node


def train_run(run: RunFolder, cluster: Cluster, nodes: int, *, reporter: Reporter | None = None) -> None:
    """Return when the run is trained and trained.json says so; nothing is launched when it is already.

    Raises TrainingError when it ends otherwise, with the rank and the reason.
    """
    training = Training(run, cluster, nodes)
    reporter = reporter or Reporter(run.name)
    config = _read_config(training)
    with reporter.closing():
        while (reason := unfinished_reason(run, config, deep=True)) is not None:
            with contextlib.ExitStack() as stack:
                try:
                    stack.enter_context(hold_lock(run.lock, note=f"neox-train submit {run.name}"))
                except LockHeldError:
                    follow_other(run, steps_wanted(config), reporter)
                    continue
                _train(training, config, reporter, reason)
        write_trained(run, len(Ledger(run.ledger).attempts))
        reporter.say(f"trained to step {config.train_iters}")


def _read_config(training: Training) -> NeoxConfig:
    run = training.run
    if not run.config_file.is_file():
        raise ConfigError(f"{run.config_file} is missing; `neox-train estimate {run.name}` writes it")
    config = read_run_config(run)
    if config.world_size != training.processes:
        raise ConfigError(
            f"{run.config_file} is resolved for {config.world_size} processes, and the cluster gives "
            f"{training.nodes} x {training.cluster.processes_per_node}; run the estimate stage again"
        )
    return config


def _train(training: Training, config: NeoxConfig, reporter: Reporter, reason: str) -> None:
    """Attempts until one finishes; raises TrainingError when no other is worth making."""
    ledger = Ledger(training.run.ledger)
    restarts = 0
    with StopSignals() as signals:
        while True:
            furthest = ledger.furthest_step()
            job, attempt = _attach_or_submit(training, config, ledger, reporter, reason)
            tail = MetricsTail(training.run.metrics, since=attempt.submitted)
            ending = follow_job(job, tail, steps_wanted(config), reporter, signals)
            if ending.outcome == DETACHED:
                raise TrainingError(f"{ending.reason}; the same command attaches to it again")
            attempt = ledger.close(attempt, _ledger_state(ending), ending.reason, tail.steps)
            if ending.outcome == FINISHED:
                return
            give_up = _reason_to_stop(ending, attempt, furthest, restarts, training.cluster.max_restarts)
            if give_up:
                raise TrainingError(_sentence(training.run, config, job, attempt, ending, give_up))
            restarts += 1
            reason = f"{ending.reason} (restart {restarts})"


def _attach_or_submit(
    training: Training, config: NeoxConfig, ledger: Ledger, reporter: Reporter, reason: str
) -> tuple[Job, Attempt]:
    run, last = training.run, ledger.last
    if last and last.is_open:
        if job := attach_job(run, last):
            reporter.say(f"attached to job {job.job_id}")
            return job, last if last.job_id else ledger.update(last, job_id=job.job_id, state=states.RUNNING)
        close_stale(run, ledger, last, reporter)
    write_provenance(run, config, training.cluster)
    number = len(ledger.attempts) + 1
    folder = f"logs/attempt-{number:04}"
    attempt = ledger.add(
        Attempt(
            number=number,
            name=f"{run.name}-{number}",
            executor=training.cluster.executor,
            host=socket.gethostname(),
            nodes=training.nodes,
            processes=training.processes,
            folder=folder,
            submitted=time.time(),
        )
    )
    try:
        job = submit_job(run, training.cluster, training.nodes, run.path / folder, attempt.name)
    except BaseException as error:
        # An sbatch that failed may have queued the job: its attempt stays open, to be looked up by name.
        if training.cluster.executor != "slurm":
            ledger.close(attempt, states.FAILED, f"not submitted: {error}", (None, None))
        raise
    attempt = ledger.update(
        attempt, job_id=job.job_id, cluster_name=job.cluster_name, state=states.RUNNING, started=time.time()
    )
    size = f"{training.nodes} x {training.cluster.processes_per_node} processes"
    reporter.say(f"job {job.job_id}, {size}, logs in {_relative(job.folder)} ({reason})")
    return job, attempt


def _reason_to_stop(ending: Ending, attempt: Attempt, furthest: int, restarts: int, max_restarts: int) -> str | None:
    if ending.outcome == INTERRUPTED:
        return "the same command continues"
    return reason_to_give_up(
        ending, last_step=attempt.last_step, furthest_step=furthest, restarts=restarts, max_restarts=max_restarts
    )


def _ledger_state(ending: Ending) -> str:
    return {FINISHED: states.FINISHED, STOPPED: states.STOPPED, INTERRUPTED: states.STOPPED}.get(
        ending.outcome, states.FAILED
    )


def _sentence(run: RunFolder, config: NeoxConfig, job: Job, attempt: Attempt, ending: Ending, give_up: str) -> str:
    logs = f"(logs: {_relative(job.folder)})"
    if ending.outcome == FAILED and not ending.retry:
        return f"run {run.name}: {ending.reason} {logs}"
    step = f"at step {attempt.last_step}" if attempt.last_step else "before a first logged step"
    return f"run {run.name} ended {step} of {config.train_iters}: {ending.reason}; {give_up} {logs}"


def _relative(path: Path) -> Path:
    with contextlib.suppress(ValueError):
        return path.absolute().relative_to(Path.cwd())
    return path
