"""How long the learning-rate decay takes where no key says so: it follows the length of the training."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def default_decay_iters(train_iters: int | None, fraction: float | None) -> int | None:
    """Steps of the decay without ``lr_decay_iters``: ``lr_decay_fraction`` of train_iters, or all of them."""
    if train_iters is None:
        return None
    return train_iters if fraction is None else max(1, int(fraction * train_iters))


def follows_length(values: Mapping[str, Any]) -> bool:
    """Whether a resolved configuration's decay is the default one, so that it moves with ``train_iters``."""
    default = default_decay_iters(values.get("train_iters"), values.get("lr_decay_fraction"))
    return values.get("lr_decay_iters") == default
