"""The learning rate as a pure function of the number of updates already made."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from neox_train.training.cadence import last_step

if TYPE_CHECKING:
    from neox_train.config.schema import NeoxConfig

DecayStyle = Literal["constant", "linear", "cosine", "exponential", "wsd", "inverse_sqrt"]

_HALVING = math.log(2.0)


@dataclass(frozen=True, kw_only=True, slots=True)
class LearningRateSchedule:
    """A linear warm-up over ``warmup * decay_iters`` updates, then the decay: GPT-NeoX's four, and two more.

    ``wsd`` keeps the peak and falls linearly over the last ``wsd_decay_fraction`` (arXiv 2404.06395, linear end);
    ``inverse_sqrt`` falls with the square root of the updates, from 1 at the end of the warm-up (arXiv 1706.03762).
    """

    lr: float
    min_lr: float
    decay_style: DecayStyle
    decay_iters: int
    warmup: float
    """Fraction of ``decay_iters`` spent warming up; fewer than one update means no warm-up."""
    wsd_decay_fraction: float = 0.1
    """Fraction of ``decay_iters`` at its end that ``wsd`` decays over, the warm-up left out."""

    @classmethod
    def from_config(cls, config: NeoxConfig) -> LearningRateSchedule:
        """Read the schedule off a resolved configuration."""
        return cls(
            lr=config.lr,
            min_lr=config.min_lr,
            decay_style=config.lr_decay_style,
            decay_iters=config.lr_decay_iters or last_step(config),
            warmup=config.warmup,
            wsd_decay_fraction=config.wsd_decay_fraction,
        )

    def lr_at(self, updates: int) -> float:
        """Learning rate of the update that follows ``updates`` others (the first is ``lr_at(0)``).

        Warm-up rises as ``lr * max(1, updates) / warmup_updates`` and never passes ``lr``. From ``decay_iters`` on,
        linear, cosine and wsd stay at ``min_lr``; exponential halves every decay span, inverse_sqrt falls on, and both
        stop at ``min_lr``.
        """
        warmup_updates = self.warmup * self.decay_iters
        if updates <= warmup_updates and warmup_updates > 0:
            return self.lr * min(1.0, max(1, updates) / warmup_updates)
        decayed = self._decay(updates - warmup_updates, self.decay_iters - warmup_updates)
        return max(decayed, self.min_lr)

    def _decay(self, done: float, span: float) -> float:
        if self.decay_style == "constant":
            return self.lr
        if self.decay_style == "exponential":
            return self.lr * math.exp(-_HALVING * done / span) if span > 0 else self.min_lr
        if self.decay_style == "inverse_sqrt":
            warmup_updates = max(1.0, self.warmup * self.decay_iters)
            return self.lr * math.sqrt(warmup_updates / (warmup_updates + done))
        if done >= span:
            return self.min_lr
        if self.decay_style == "wsd":
            decay = min(span, self.wsd_decay_fraction * self.decay_iters)
            return self.min_lr + (self.lr - self.min_lr) * min(1.0, (span - done) / decay)
        if self.decay_style == "linear":
            return self.lr * (span - done) / span
        return self.min_lr + (self.lr - self.min_lr) / 2 * (1 + math.cos(math.pi * done / span))
