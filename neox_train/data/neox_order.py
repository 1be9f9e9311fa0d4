"""GPT-NeoX's order of samples over .bin/.idx files, so that a training begun there goes on with the samples due next.

Its documents are the items of a split, repeated for as many epochs as the training needs and shuffled as one; the
samples are windows over that stream, shuffled by the same generator. Both shuffles are NumPy's legacy RandomState.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np

from neox_train.config.split import read_split
from neox_train.data.order_size import count_number_bytes
from neox_train.errors import DataError

_SPLITS = ("train", "validation", "test")


def split_items(split: str, num_items: int) -> dict[str, range]:
    """Items of each split under GPT-NeoX's ``split`` string ("969, 30, 1"); raises as ``read_split``.

    Each boundary is the one before plus its rounded share (half to even); what rounding adds in all is taken from
    every boundary.
    """
    shares = read_split(split)
    total = sum(shares)
    bounds = [0]
    for share in shares:
        bounds.append(bounds[-1] + round(share / total * num_items))
    excess = bounds[-1] - num_items
    bounds = [bounds[0], *(bound - excess for bound in bounds[1:])]
    return {name: range(max(bounds[i], 0), max(bounds[i + 1], 0)) for i, name in enumerate(_SPLITS)}


class Items(Protocol):
    """Token sequences of an indexed file."""

    sizes: np.ndarray
    """Tokens of each, integers."""

    def part(self, item: int, start: int, stop: int) -> np.ndarray:
        """Tokens start to stop (exclusive) of one item."""

    def check(self, ids: np.ndarray) -> None:
        """Raise DataError where ids that were read cannot be tokens."""


class ItemStream:
    """Items of a pair of files, back to back in a given order, as one stream of tokens."""

    def __init__(self, tokens: Items, items: np.ndarray) -> None:
        """``items``: integer [number of items], repeats allowed."""
        self._tokens = tokens
        self._items = items
        self._ends = np.cumsum(tokens.sizes[items], dtype=np.int64)

    @property
    def num_tokens(self) -> int:
        """Length of the stream."""
        return int(self._ends[-1]) if len(self._ends) else 0

    def read(self, start: int, stop: int) -> np.ndarray:
        """Tokens start to stop (exclusive), int64."""
        if not 0 <= start <= stop <= self.num_tokens:
            raise IndexError(f"tokens {start} to {stop} of a stream with {self.num_tokens} tokens")
        result = np.empty(stop - start, dtype=np.int64)
        place = int(np.searchsorted(self._ends, start, side="right"))
        filled = 0
        while filled < len(result):
            item = int(self._items[place])
            size = int(self._tokens.sizes[item])
            offset = start + filled - (int(self._ends[place]) - size)
            part = self._tokens.part(item, offset, min(size, offset + len(result) - filled))
            result[filled : filled + len(part)] = part
            filled, place = filled + len(part), place + 1
        self._tokens.check(result)
        return result


def count_tokens(tokens: Items, items: range) -> int:
    """Tokens of the items that are trained on; raises DataError where they are too few."""
    count = int(tokens.sizes[items.start : items.stop].sum(dtype=np.int64))
    if count < 2:
        raise DataError(f"the train split has {count} tokens, too few for a window; change `split` or add data")
    return count


class NeoxOrder:
    """GPT-NeoX's shuffled windows of a split: ``stream`` holds the tokens, and sample k reads window ``order[k]``."""

    def __init__(self, tokens: Items, items: range, *, num_samples: int, seq_length: int, seed: int) -> None:
        """``num_samples``: what the whole training asks for; it sets the number of epochs that are mixed.

        Raises DataError where the items hold no whole window.
        """
        per_epoch = count_tokens(tokens, items)
        self._per_epoch, self._seq_length = per_epoch, seq_length
        epochs = self.count_epochs(num_samples)
        random = np.random.RandomState(seed)
        documents = np.tile(np.arange(items.start, items.stop, dtype=np.int32), epochs)
        random.shuffle(documents)
        self.stream = ItemStream(tokens, documents)
        num_windows = (epochs * per_epoch - 1) // seq_length
        if num_windows < 1:
            raise DataError(f"the train split has {per_epoch} tokens, too few for a window; change `split` or add data")
        self._shuffled = np.arange(num_windows, dtype="u4" if count_number_bytes(num_windows) == 4 else "i8")
        random.shuffle(self._shuffled)

    def count_epochs(self, num_samples: int) -> int:
        """Epochs that are mixed for a training of so many samples; equal numbers give equal orders."""
        # The least number whose windows are enough: (epochs * per_epoch - 1) // seq_length >= num_samples.
        return max(1, -(-(num_samples * self._seq_length + 1) // self._per_epoch))

    def __len__(self) -> int:
        return len(self._shuffled)

    def __getitem__(self, sample: int) -> int:
        return int(self._shuffled[sample % len(self._shuffled)])
