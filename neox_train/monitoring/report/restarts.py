"""Where a run's training started again, and why the attempt before had ended."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from neox_train.monitoring.quantities import format_integer, is_number
from neox_train.monitoring.report.inputs import Json, RunInputs


@dataclass(frozen=True)
class Restart:
    """A step at which a new attempt went on."""

    step: float
    text: str


def list_attempts(run: RunInputs) -> list[Json]:
    """The attempts of a run's ledger, oldest first."""
    attempts = run.ledger.get("attempts")
    return [attempt for attempt in attempts if isinstance(attempt, dict)] if isinstance(attempts, list) else []


def find_restarts(run: RunInputs) -> list[Restart]:
    """One restart for each attempt after the first that did steps."""
    restarts: list[Restart] = []
    attempts = list_attempts(run)
    for before, attempt in pairwise(attempts):
        step = attempt.get("first_step")
        if is_number(step):
            reason = before.get("reason") or before.get("state") or "unknown reason"
            number = attempt.get("number", len(restarts) + 2)
            text = f"attempt {number} goes on at step {format_integer(step)}; the one before ended: {reason}"
            restarts.append(Restart(step, text))
    return restarts
