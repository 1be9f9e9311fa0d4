"""The learning rate as a pure function of the number of updates already made."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from neox_train.training.cadence import last_step

if TYPE_CHECKING:
    from neox_train.config.schema import NeoxConfig

DecayStyle = Literal["constant", "linear", "cosine", "exponential"]

_HALVING = math.log(2.0)


@dataclass(frozen=True, kw_only=True, slots=True)
class LearningRateSchedule:
    """GPT-NeoX's schedules: a linear warm-up over ``warmup * decay_iters`` updates, then the decay."""

    lr: float
    min_lr: float
    decay_style: DecayStyle
    decay_iters: int
    warmup: float
    """Fraction of ``decay_iters`` spent warming up; fewer than one update means no warm-up."""

    @classmethod
    def from_config(cls, config: NeoxConfig) -> LearningRateSchedule:
        """Read the schedule off a resolved configuration."""
        return cls(
            lr=config.lr,
            min_lr=config.min_lr,
            decay_style=config.lr_decay_style,
            decay_iters=config.lr_decay_iters or last_step(config),
            warmup=config.warmup,
        )

    def lr_at(self, updates: int) -> float:
        """Learning rate of the update that follows ``updates`` others (the first is ``lr_at(0)``).

        Warm-up rises as ``lr * max(1, updates) / warmup_updates`` and never passes ``lr``. From ``decay_iters`` on,
        linear and cosine stay at ``min_lr``; exponential halves every decay span and stops at ``min_lr``.
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
        if done >= span:
            return self.min_lr
        if self.decay_style == "linear":
            return self.lr * (span - done) / span
        return self.min_lr + (self.lr - self.min_lr) / 2 * (1 + math.cos(math.pi * done / span))
