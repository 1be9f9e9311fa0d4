"""Train one run to its end: submit or attach, follow, start again while there is progress."""

from __future__ import annotations

import contextlib

from neox_train.cluster import causes
from neox_train.cluster import ledger as states
from neox_train.cluster.attempts import Training, find_job, find_or_submit
from neox_train.cluster.cancellation import is_cancelled, mark_cancelled
from neox_train.cluster.completion import (
    lost_checkpoint_notice,
    read_finished,
    read_run_config,
    steps_wanted,
    unfinished_reason,
    write_trained,
)
from neox_train.cluster.endings import CANCELLED, DETACHED, FINISHED, INTERRUPTED, STOPPED, Ending
from neox_train.cluster.follow import Follower
from neox_train.cluster.jobs import Job
from neox_train.cluster.last_words import word_ending, word_stop
from neox_train.cluster.ledger import Attempt, Ledger
from neox_train.cluster.other import follow_other
from neox_train.cluster.packages import require_packages
from neox_train.cluster.progress import MetricsTail
from neox_train.cluster.reporter import Reporter
from neox_train.cluster.restart import counts_as_restart, reason_to_give_up
from neox_train.cluster.resumable import require_start
from neox_train.cluster.stop_signals import StopSignals
from neox_train.cluster.visible_data import require_visible_data, require_visible_data_apart
from neox_train.config.cluster import Cluster
from neox_train.config.layout import RunFolder
from neox_train.config.run_file import restore_run_config, write_run_config
from neox_train.config.schema import NeoxConfig
from neox_train.errors import ConfigError, LockHeldError, StoppedError, TrainingError
from neox_train.locks import hold_lock


def train_run(
    run: RunFolder,
    cluster: Cluster,
    nodes: int,
    *,
    config: NeoxConfig | None = None,
    reporter: Reporter | None = None,
) -> None:
    """Return when the run is trained and trained.json says so; nothing is launched when it is already.

    The run's config.yml counts, unless the caller brings its own ``config`` (``accept_config``). Raises TrainingError
    when it ends otherwise, with the rank and the reason, StoppedError when a signal asked for it.
    """
    reporter = reporter or Reporter(run.name)
    if config is not None:
        accept_config(run, cluster, nodes, config)
    training = Training(run, cluster, nodes, config or _read_config(run))
    _require_runnable(training)
    with reporter.closing():
        while (reason := unfinished_reason(run, training.config, deep=True)) is not None:
            with contextlib.ExitStack() as stack:
                try:
                    stack.enter_context(hold_lock(run.lock, note=f"neox-train submit {run.name}"))
                except LockHeldError:
                    if config is not None:
                        write_run_config(run, config)
                    follow_other(run, steps_wanted(training.config), reporter)
                    continue
                if config is not None:
                    restore_run_config(run, config)
                else:
                    require_visible_data_apart(run)
                _train(training, reporter, reason)
        _close_unfollowed(run, training.config, reporter)
        _mark_trained(run, training.config, reporter)


def accept_config(run: RunFolder, cluster: Cluster, nodes: int, config: NeoxConfig) -> None:
    """Make ``config`` the run's, whose folder stays as it is where it may not be.

    Raises CheckpointError where the run's checkpoints are of another configuration or dataset, ConfigError where the
    number of processes is another, LockHeldError where another process trains the run with another configuration.
    """
    _require_runnable(Training(run, cluster, nodes, config))
    require_start(run, config)
    require_visible_data(config)
    write_run_config(run, config)


def attach_run(run: RunFolder, *, reporter: Reporter | None = None) -> None:
    """Follow the run's living job to its end, and submit nothing.

    Raises ConfigError where there is no such job, TrainingError when it ends without finishing.
    """
    reporter = reporter or Reporter(run.name)
    config = _read_config(run)
    with reporter.closing():
        if unfinished_reason(run, config, deep=False) is not None:
            try:
                with hold_lock(run.lock, note=f"neox-train attach {run.name}"):
                    _attach(run, config, reporter)
            except LockHeldError:
                follow_other(run, steps_wanted(config), reporter)
        if (reason := unfinished_reason(run, config, deep=True)) is not None:
            raise TrainingError(f"run {run.name} is not trained ({reason}); {run.training_command} continues it")
        _close_unfollowed(run, config, reporter)
        _mark_trained(run, config, reporter)


def _read_config(run: RunFolder) -> NeoxConfig:
    if not run.config_file.is_file():
        raise ConfigError(f"{run.config_file} is missing; `neox-train estimate {run.name} --pipeline FILE` writes it")
    return read_run_config(run)


def _require_runnable(training: Training) -> None:
    if training.config.world_size != training.processes:
        raise ConfigError(
            f"{training.run.config_file} is resolved for {training.config.world_size} processes, and the cluster gives "
            f"{training.nodes} x {training.cluster.processes_per_node}; run the estimate stage again"
        )
    require_packages(training.config, training.cluster)


def _close_unfollowed(run: RunFolder, config: NeoxConfig, reporter: Reporter) -> None:
    """Write down the end of an attempt that finished while nobody followed it."""
    with contextlib.suppress(LockHeldError), hold_lock(run.lock, note="closing the ledger"), StopSignals() as signals:
        ledger = Ledger(run.ledger)
        last = ledger.last
        if last is None or not last.is_open:
            return
        if last.executor == "slurm" and (found := find_job(run, ledger, reporter, signals)):
            _follow(run, config, ledger, *found, reporter, signals)
        elif ledger.attempts[-1].is_open:
            tail = MetricsTail(run.metrics, since=last.submitted)
            tail.read(steps_wanted(config))
            ledger.close(last, states.FINISHED, causes.FINISHED, "finished while nobody followed it", tail.steps)


def _mark_trained(run: RunFolder, config: NeoxConfig, reporter: Reporter) -> None:
    write_trained(run, len(Ledger(run.ledger).attempts))
    finished = read_finished(run) or {}
    step, wanted = finished.get("step"), config.train_iters
    beyond = "" if step == wanted else f", which is past `train_iters: {wanted}`: nothing is left to train"
    reporter.say(f"trained to step {step}{beyond}")
    if notice := lost_checkpoint_notice(run, finished):
        reporter.say(notice)


def _train(training: Training, reporter: Reporter, reason: str) -> None:
    """Attempts until one finishes; raises TrainingError when no other is worth making."""
    run, config = training.run, training.config
    ledger = Ledger(run.ledger)
    restarts = 0
    with StopSignals() as signals:
        while True:
            furthest = ledger.furthest_step()
            found = find_or_submit(training, ledger, reporter, signals, reason)
            job, attempt, ending = _follow(run, config, ledger, *found, reporter, signals)
            if ending.outcome == FINISHED:
                return
            if ending.outcome == INTERRUPTED:
                raise StoppedError(word_stop(run, config, job, attempt, ending), signals.number)
            give_up = _reason_to_stop(training, ending, attempt.last_step, furthest, restarts)
            if give_up:
                raise causes.name_error(ending.cause, word_ending(run, config, job, attempt, ending, give_up))
            restarts += counts_as_restart(ending, last_step=attempt.last_step, furthest_step=furthest)
            reason = f"{ending.reason}; started again"


def _attach(run: RunFolder, config: NeoxConfig, reporter: Reporter) -> None:
    ledger = Ledger(run.ledger)
    with StopSignals() as signals:
        found = find_job(run, ledger, reporter, signals)
        if found is None:
            raise ConfigError(f"run {run.name} has no job to attach to; {run.training_command} starts one")
        job, attempt, ending = _follow(run, config, ledger, *found, reporter, signals)
        if ending.outcome != FINISHED:
            remedy = f"{run.training_command} continues it" if ending.retry else "nothing is submitted"
            raise causes.name_error(ending.cause, word_ending(run, config, job, attempt, ending, remedy))


def _follow(
    run: RunFolder,
    config: NeoxConfig,
    ledger: Ledger,
    job: Job,
    attempt: Attempt,
    reporter: Reporter,
    signals: StopSignals,
) -> tuple[Job, Attempt, Ending]:
    """Follow to the end and write it down; raises StoppedError when a signal ends the following alone."""
    follower = Follower(run, job, ledger, steps_wanted(config), reporter, signals)
    ending = follower.follow()
    if ending.outcome == DETACHED:
        sentence = f"run {run.name}: {ending.reason}; the same command attaches to it again"
        raise StoppedError(sentence, signals.number)
    if ending.outcome == CANCELLED and not is_cancelled(run):
        mark_cancelled(run, job_id=job.job_id, reason=ending.reason)
    state = _ledger_state(ending)
    return job, ledger.close(ledger.attempts[-1], state, ending.cause, ending.reason, follower.steps), ending


def _reason_to_stop(
    training: Training, ending: Ending, last_step: int | None, furthest: int, restarts: int
) -> str | None:
    if ending.outcome == CANCELLED or is_cancelled(training.run):
        return f"it is not submitted again before `neox-train cancel {training.run.name} --undo`"
    return reason_to_give_up(
        ending,
        last_step=last_step,
        furthest_step=furthest,
        restarts=restarts,
        max_restarts=training.cluster.max_restarts,
    )


def _ledger_state(ending: Ending) -> str:
    known = {
        FINISHED: states.FINISHED,
        STOPPED: states.STOPPED,
        INTERRUPTED: states.STOPPED,
        CANCELLED: states.CANCELLED,
    }
    return known.get(ending.outcome, states.FAILED)
