"""A second controller of a run: it follows the first in words and ends with it."""

from __future__ import annotations

import time

from neox_train.cluster.ledger import FAILED, Ledger
from neox_train.cluster.live import ask_state
from neox_train.cluster.progress import MetricsTail
from neox_train.cluster.reporter import Reporter
from neox_train.config.layout import RunFolder
from neox_train.errors import TrainingError
from neox_train.holder import read_holder
from neox_train.locks import is_held

_POLL_SECONDS = 1.0


def follow_other(run: RunFolder, train_iters: int, reporter: Reporter) -> None:
    """Return when the process that holds the run's lock has ended or died.

    Raises TrainingError with its reason when it gave the run up meanwhile: trying again at once would repeat it. One
    that was only asked to stop has saved, and the caller goes on from there.
    """
    began = time.time()
    holder = read_holder(run.lock)
    who = str(holder).removesuffix(",") if holder else "another process"
    reporter.say(f"{who} works on this run; following it")
    tail = MetricsTail(run.metrics)
    while is_held(run.lock):
        progress = tail.read(train_iters)
        if text := str(progress) if progress else ask_state(run, Ledger(run.ledger).last):
            reporter.show(text)
        time.sleep(_POLL_SECONDS)
    last = Ledger(run.ledger).last
    if last and last.state == FAILED and (last.ended or 0.0) >= began:
        raise TrainingError(f"run {run.name}: the process followed gave up: {last.reason}")
