"""GPT-NeoX's blend of .bin/.idx files: which set, and which of its samples, the k-th sample of a training reads.

Sample k goes to the set that lags most behind its weight: the first with the greatest ``weight * max(k, 1) - taken``
in double precision, where ``taken`` counts the samples it has had. It reads that set's next sample.
Source: the facts of GPT-NeoX's BlendableDataset; its own index files are not needed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from neox_train.data.neox_order import NeoxOrder
from neox_train.data.order import Order
from neox_train.errors import ConfigError

_BLOCK = 1 << 14
"""Samples that are walked at a time; what every set had before a block is kept, 8 bytes a set."""
_MOST_SETS = 254


def normalise_weights(weights: Sequence[float]) -> list[float]:
    """Weights that add up to 1, by the additions and divisions of GPT-NeoX."""
    total = sum(weights)
    return [weight / total for weight in weights]


def count_samples(weights: Sequence[float], num_samples: int) -> list[int]:
    """Samples that each set is prepared for: its part of ``num_samples`` and half a per cent more.

    ``weights`` add up to 1. It sets how many epochs of the set are mixed.
    """
    return [math.ceil(num_samples * weight * 1.005) for weight in weights]


class NeoxBlendOrder:
    """Windows of several sets in GPT-NeoX's order: sample k reads window ``order[k]`` of all sets' windows in a row.

    A sample far ahead is found by walking to it once; from there on each is cheap.
    """

    def __init__(self, orders: Sequence[NeoxOrder], weights: Sequence[float]) -> None:
        """``weights``: one a set, adding up to 1. Raises ConfigError for more sets than GPT-NeoX can count."""
        if len(orders) > _MOST_SETS:
            raise ConfigError(f"a blend of .bin/.idx files has {len(orders)} sets; {_MOST_SETS} is the most, join some")
        # Divided by their sum once more, as GPT-NeoX does: the last bit decides ties.
        exact = np.array(weights, dtype=np.float64)
        self._weights: list[float] = (exact / np.sum(exact)).tolist()
        self._orders = list(orders)
        self._shares = list(weights)
        self._starts = np.concatenate([[0], np.cumsum([len(order) for order in orders])]).tolist()
        self._taken = [[0] * len(orders)]
        self._walk = lru_cache(maxsize=4)(self._walk_block)

    def count_epochs(self, num_samples: int) -> list[int]:
        """Epochs of each set that are mixed for a training of so many samples."""
        wanted = count_samples(self._shares, num_samples)
        return [order.count_epochs(count) for order, count in zip(self._orders, wanted, strict=True)]

    def __len__(self) -> int:
        return int(self._starts[-1])

    def __getitem__(self, sample: int) -> int:
        which, own = self.locate(sample)
        return int(self._starts[which]) + self._orders[which][own]

    def locate(self, sample: int) -> tuple[int, int]:
        """The set that a sample comes from, and its number among that set's samples."""
        block, place = divmod(sample % len(self), _BLOCK)
        while len(self._taken) <= block:
            self._walk(len(self._taken) - 1)
        sets, ranks = self._walk(block)
        return int(sets[place]), int(ranks[place])

    def count_taken(self, num_samples: int) -> list[int]:
        """Samples that each set gives to the first ``num_samples``."""
        taken = [0] * len(self._orders)
        for first in range(0, num_samples, _BLOCK):
            self.locate(first)
            sets, _ = self._walk(first // _BLOCK)
            for which, count in enumerate(np.bincount(sets[: num_samples - first], minlength=len(taken)).tolist()):
                taken[which] += count
        return taken

    def _walk_block(self, block: int) -> tuple[np.ndarray, np.ndarray]:
        """uint8 sets and int64 numbers of a block's samples; what every set had after it is remembered."""
        taken, weights = list(self._taken[block]), self._weights
        sets, ranks = np.empty(_BLOCK, dtype=np.uint8), np.empty(_BLOCK, dtype=np.int64)
        for place in range(_BLOCK):
            position = float(max(block * _BLOCK + place, 1))
            lags = [weight * position - had for weight, had in zip(weights, taken, strict=True)]
            which = lags.index(max(lags))
            sets[place], ranks[place] = which, taken[which]
            taken[which] += 1
        if block + 1 == len(self._taken):
            self._taken.append(taken)
        return sets, ranks


def tell_other_epochs(order: Order, *, before: int, now: int) -> str:
    """What to know where a training goes on for ``now`` samples in all that was begun for ``before``; else empty."""
    if not isinstance(order, NeoxOrder | NeoxBlendOrder):
        return ""
    old, new = order.count_epochs(before), order.count_epochs(now)
    if old == new:
        return ""
    return (
        f"the .bin/.idx files are mixed over {new} epochs in place of {old}, "
        "as GPT-NeoX does for another `train_iters`: from here on samples come in another order, in which some that "
        "were trained on come again; the old `train_iters` keeps the order"
    )
