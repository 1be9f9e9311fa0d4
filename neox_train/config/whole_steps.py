"""How long whole gradients travel before a compression that is not exact begins."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from neox_train.config.schema import NeoxConfig

_SHARE = 0.2
"""Of a training's steps; the papers of 1-bit optimizers take 15 to 25 %."""


def choose_whole_steps(config: NeoxConfig) -> int:
    """A fifth of the training, and no less than the learning rate's warm-up."""
    steps = config.train_iters or 0
    rising = config.warmup * (config.lr_decay_iters or steps)
    return max(1, math.ceil(max(_SHARE * steps, rising)))
