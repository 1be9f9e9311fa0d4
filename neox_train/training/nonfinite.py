"""Steps whose gradients are not finite: skipped, counted, and the end of the run when they do not stop."""

from __future__ import annotations

from dataclasses import dataclass

from neox_train.errors import NonFiniteError

MAX_CONSECUTIVE_SKIPS = 50
"""GPT-NeoX's limit. A dynamic loss scale starting at 2^32 finds its level well within it."""

_REMEDY = "lower `optimizer.params.lr`, lengthen `warmup`, or use `precision: bfloat16`, then repeat"


@dataclass(slots=True)
class SkipCounter:
    """Counts the updates that were not made; ``total`` belongs to the checkpoint, the streak starts at zero."""

    total: int = 0
    streak: int = 0
    limit: int = MAX_CONSECUTIVE_SKIPS

    def count(self, *, step: int, applied: bool, loss: float, loss_scale: float | None, checkpoint: str) -> None:
        """Take note of one step; raises NonFiniteError at the limit of consecutive skips.

        ``checkpoint`` names what the weights can be resumed from, for the sentence.
        """
        if applied:
            self.streak = 0
            return
        self.total += 1
        self.streak += 1
        if self.streak >= self.limit:
            scale = f", loss scale {loss_scale:g}" if loss_scale is not None else ""
            raise NonFiniteError(
                f"step {step}: the gradients were not finite in {self.streak} consecutive steps (loss {loss:g}{scale})"
                f", so the training stopped; {checkpoint}; {_REMEDY}"
            )


def not_finite_at_the_end(step: int, checkpoint: str) -> str:
    """The sentence for a run whose last step has a loss that is not finite."""
    return f"step {step}, the last, has a loss that is not finite, so the run does not count; {checkpoint}; {_REMEDY}"
