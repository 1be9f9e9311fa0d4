"""Settings of local updates that a training of this length learns well with, where the file leaves them out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from neox_train.config.whole_steps import choose_whole_steps

if TYPE_CHECKING:
    from neox_train.config.schema import NeoxConfig

_MOST_STEPS = 50
_LEAST_ROUNDS = 20
"""Outer steps of a training: momentum needs several to gather and as many to settle."""
_PAPER_MOMENTUM = 0.9
_MEMORY_OF_ROUNDS = 6
"""Outer steps of a training by those that momentum remembers, at least."""


@dataclass(frozen=True, slots=True)
class LocalUpdateSettings:
    """When replicas train by themselves, and how they take the outer step."""

    start_step: int
    """Steps with whole gradients before."""
    every: int
    """Steps by themselves between two outer steps."""
    momentum: float


def choose_local_update(config: NeoxConfig) -> LocalUpdateSettings:
    """What the file says, else a fifth of the training whole, twenty outer steps or more, and the momentum for so many.

    The paper's outer step (momentum 0.9) remembers ten outer steps; a training of few outer steps ends before it has
    settled. Measured in docs/communication.md.
    """
    start = config.local_update_start_step
    if start is None:
        start = choose_whole_steps(config)
    left = max(1, (config.train_iters or 0) - start)
    every = config.local_update_steps or max(1, min(_MOST_STEPS, left // _LEAST_ROUNDS))
    momentum = config.local_update_momentum
    if momentum is None:
        momentum = round(max(0.0, min(_PAPER_MOMENTUM, 1 - _MEMORY_OF_ROUNDS * every / left)), 3)
    return LocalUpdateSettings(start, every, momentum)
