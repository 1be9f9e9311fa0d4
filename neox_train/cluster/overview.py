"""Where runs stand, read from what they left: markers, ledger, metrics, failure."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from neox_train.cluster.cancellation import is_cancelled
from neox_train.cluster.ledger import Attempt, Ledger
from neox_train.cluster.live import ask_state
from neox_train.config.layout import STOPPED, RunFolder
from neox_train.config.load import load_config
from neox_train.errors import ConfigError, UserError
from neox_train.files import read_record
from neox_train.locks import is_held
from neox_train.monitoring.metrics import last_record

_INTERRUPTED = "interrupted"
_GONE = "the command that trained it is gone without a word, its ranks with it; the same command continues"


@dataclass(frozen=True)
class RunState:
    """One line of the overview; ``changed`` is seconds since the epoch of the newest sign of life."""

    name: str
    state: str
    steps: str
    loss: float | None
    validation_loss: float | None
    attempts: int
    job_id: str | None
    changed: float | None
    note: str


def list_runs(results: Path, only: str | None = None) -> list[RunState]:
    """Every run of a results folder by name, or the one named ``only``; empty where there is none."""
    folders = sorted(path for path in (results / "runs").glob("*") if path.is_dir())
    return [describe_run(RunFolder(path)) for path in folders if only in (None, path.name)]


def find_run(results: Path, name: str) -> RunFolder:
    """The folder of a run; raises ConfigError where there is none of that name."""
    run = RunFolder.of(results, name)
    if not run.path.is_dir():
        raise ConfigError(f"{results / 'runs'} has no run `{name}`; `neox-train status` lists those there are")
    return run


def describe_run(run: RunFolder) -> RunState:
    """State of one run; nothing is changed, and Slurm is asked about a job that is open.

    A damaged record is told in the run's note: the other runs are still shown.
    """
    try:
        return _describe(run)
    except UserError as error:
        return RunState(run.name, "damaged", "", None, None, 0, None, None, str(error))


def _describe(run: RunFolder) -> RunState:
    ledger = Ledger(run.ledger)
    last, attempts = ledger.last, len(ledger.attempts)
    train = last_record(run.metrics, "train") or {}
    validation = last_record(run.metrics, "validation") or {}
    failure = read_record(run.failure) or {}
    wanted = load_config([run.config_file]).train_iters if run.config_file.is_file() else None
    step = train.get("step")
    state = _state(run, failure, last)
    reason = _GONE if state == _INTERRUPTED else last.reason if last else ""
    return RunState(
        name=run.name,
        state=state,
        steps="" if step is None else f"{step}/{wanted}" if wanted else str(step),
        loss=_loss(train),
        validation_loss=_loss(validation),
        attempts=attempts,
        job_id=last.job_id if last else None,
        changed=train.get("time") or (last.submitted if last else None),
        note=ask_state(run, last) or str(failure.get("sentence") or reason),
    )


def _loss(record: dict[str, Any]) -> float | None:
    """metrics.jsonl has null where a loss is not finite."""
    if "loss" not in record:
        return None
    return math.nan if record["loss"] is None else float(record["loss"])


def _state(run: RunFolder, failure: dict[str, Any], last: Attempt | None) -> str:
    failed = STOPPED if failure.get("outcome") == STOPPED else f"{failure.get('stage')} failed"
    for marker, word in ((run.evaluation, "evaluated"), (run.converted, "converted"), (run.trained, "trained")):
        if marker.is_file():
            return f"{word}, {failed}" if failure else word
    if is_cancelled(run):
        return "cancelled"
    if last is not None and last.is_open:
        if is_held(run.lock):
            return "training"
        # Ranks on one machine end with the command that started them.
        return _INTERRUPTED if last.executor == "local" else "training, not followed"
    if failure:
        return failed
    return "estimated" if run.estimated.is_file() else "new"
