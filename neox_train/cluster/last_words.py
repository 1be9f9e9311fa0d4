"""The sentence with which a command that trained a run ends."""

from __future__ import annotations

from neox_train.checkpoint.folders import name_step
from neox_train.cluster.attempts import short_path
from neox_train.cluster.endings import FAILED, Ending
from neox_train.cluster.jobs import Job
from neox_train.cluster.ledger import Attempt
from neox_train.cluster.resumable import find_newest
from neox_train.config.layout import RunFolder
from neox_train.config.schema import NeoxConfig


def word_ending(run: RunFolder, config: NeoxConfig, job: Job, attempt: Attempt, ending: Ending, give_up: str) -> str:
    """Where an attempt ended, why, and why no other follows."""
    logs = f"(logs: {short_path(job.folder)})"
    if ending.outcome == FAILED and not ending.retry:
        return f"run {run.name}: {ending.reason} {logs}"
    step = f"at step {attempt.last_step}" if attempt.last_step else "before a first logged step"
    return f"run {run.name} ended {step} of {config.train_iters}: {ending.reason}; {give_up} {logs}"


def word_stop(run: RunFolder, config: NeoxConfig, job: Job, attempt: Attempt, ending: Ending) -> str:
    """Where a run that was asked to stop stands, and what the same command goes on from."""
    newest = find_newest(run, config)
    start = f"from {name_step(newest.step)}" if newest else "at step 0, as there is no checkpoint yet"
    step = f"after step {attempt.last_step}" if attempt.last_step else "before a first logged step"
    return (
        f"run {run.name} {step} of {config.train_iters}: {ending.reason}; the same command continues {start} "
        f"(logs: {short_path(job.folder)})"
    )
