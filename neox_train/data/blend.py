"""Blending several streams of windows by weight: which set, and which of its windows, the k-th sample reads.

The sets follow a fixed round of ROUND samples, each set's share of it whole and spread evenly over it. The round
repeats without end, so that a sample is found without walking to it, whatever the length of the training.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from neox_train.data.order import SampleOrder
from neox_train.data.windows import Windows
from neox_train.errors import DataError

ROUND = 1 << 16
"""Samples of a round: shares are met to 1/65536."""


def document_weights(documents: Sequence[int], alpha: float) -> list[float]:
    """GPT-NeoX's weights by number of documents: with p a set's share of them and q = p^alpha normalised, q (1 - p).

    Source: GPT-NeoX's ``weight_by_num_documents``; it is flatter than p^alpha (900 and 100 documents at alpha 1 give
    equal weights).
    """
    if len(documents) == 1:
        return [1.0]
    shares = [count / sum(documents) for count in documents]
    # Plain sums and powers, one after the other: what GPT-NeoX gets, to the last bit.
    powers = [share**alpha for share in shares]
    total = sum(powers)
    weights = [power / total * (1 - share) for power, share in zip(powers, shares, strict=True)]
    total = sum(weights)
    return [weight / total for weight in weights]


def temper(weights: Sequence[float], temperature: float) -> list[float]:
    """Weights to the power 1 / temperature, a set of weight 0 staying out; they add up to 1."""
    powers = [weight ** (1 / temperature) if weight > 0 else 0.0 for weight in weights]
    return [power / sum(powers) for power in powers]


class BlendOrder:
    """The order of a blend: a sample is one number, as one long list of all sets' windows has it."""

    def __init__(self, num_windows: Sequence[int], weights: Sequence[float], seed: int) -> None:
        """Raises DataError where a set that is to be drawn holds no window."""
        self._counts = _share_out(weights)
        for place, (count, size) in enumerate(zip(self._counts, num_windows, strict=True)):
            if count and not size:
                raise DataError(
                    f"set {place + 1} of the blend is shorter than one window of seq_length + 1 tokens; "
                    "give it weight 0, more text, or set `seq_length` lower"
                )
        self._sets, self._ranks = _spread(self._counts)
        self._starts = np.concatenate([[0], np.cumsum(num_windows)]).tolist()
        self._orders = [SampleOrder(size, seed) if size else None for size in num_windows]

    @property
    def shares(self) -> list[float]:
        """Share of the samples that each set really gets."""
        return [count / ROUND for count in self._counts]

    def __getitem__(self, sample: int) -> int:
        rounds, place = divmod(sample, ROUND)
        which = int(self._sets[place])
        order = self._orders[which]
        assert order is not None
        return int(self._starts[which]) + order[rounds * self._counts[which] + int(self._ranks[place])]


def _share_out(weights: Sequence[float]) -> list[int]:
    """Whole numbers that add up to ROUND in proportion to the weights; a weight above 0 gets at least 1."""
    total = sum(weights)
    exact = [weight / total * ROUND for weight in weights]
    counts = [max(int(share), 1) if share > 0 else 0 for share in exact]
    by_rest = sorted(range(len(exact)), key=lambda place: counts[place] - exact[place])
    for place in by_rest[: max(0, ROUND - sum(counts))]:
        counts[place] += 1
    counts[counts.index(max(counts))] -= sum(counts) - ROUND
    return counts


def _spread(counts: Sequence[int]) -> tuple[np.ndarray, np.ndarray]:
    """The set of each place of a round, and how many of that set come before it.

    The j-th of a set's n draws is due at the middle of the j-th n-th of the round; dues are served in order.
    """
    due = np.concatenate([(np.arange(count) + 0.5) / max(count, 1) for count in counts])
    sets = np.repeat(np.arange(len(counts)), counts)
    ranks = np.concatenate([np.arange(count) for count in counts])
    served = np.argsort(due, kind="stable")
    return sets[served], ranks[served]


class BlendedWindows:
    """The windows of several sets, one set after the other."""

    def __init__(self, sets: Sequence[Windows]) -> None:
        self._sets = list(sets)
        self.seq_length = self._sets[0].seq_length
        self._starts = np.concatenate([[0], np.cumsum([len(windows) for windows in sets])])

    def __len__(self) -> int:
        return int(self._starts[-1])

    def batch(self, indices: Sequence[int]) -> np.ndarray:
        """int64 [len(indices), seq_length + 1]."""
        rows = np.empty((len(indices), self.seq_length + 1), dtype=np.int64)
        for row, index in zip(rows, indices, strict=True):
            which = int(np.searchsorted(self._starts, index, side="right")) - 1
            row[:] = self._sets[which][index - int(self._starts[which])]
        return rows


class FixedBlend:
    """Windows of several sets by weight, each set's in its own order: no window twice, it ends with the first set that
    is used up.
    """

    def __init__(self, sets: Sequence[Windows], weights: Sequence[float]) -> None:
        self._sets = list(sets)
        self.seq_length = self._sets[0].seq_length
        self._counts = _share_out(weights)
        self._chosen, self._ranks = _spread(self._counts)
        self._size = min(self._find_end(which) for which, count in enumerate(self._counts) if count)

    @property
    def shares(self) -> list[float]:
        """Share of the windows that each set gets of a whole round."""
        return [count / ROUND for count in self._counts]

    def __len__(self) -> int:
        return self._size

    def batch(self, indices: Sequence[int]) -> np.ndarray:
        """int64 [len(indices), seq_length + 1]."""
        rows = np.empty((len(indices), self.seq_length + 1), dtype=np.int64)
        for row, index in zip(rows, indices, strict=True):
            rounds, place = divmod(index, ROUND)
            which = int(self._chosen[place])
            row[:] = self._sets[which][rounds * self._counts[which] + int(self._ranks[place])]
        return rows

    def _find_end(self, which: int) -> int:
        """The place at which the set would be drawn once more than it has windows."""
        rounds, rest = divmod(len(self._sets[which]), self._counts[which])
        return rounds * ROUND + int(np.flatnonzero(self._chosen == which)[rest])
