"""A token stream cut into training windows of seq_length + 1 tokens, each sharing one token with the next."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np


class TokenSource(Protocol):
    """What windows are cut from."""

    @property
    def num_tokens(self) -> int:
        """Length of the stream."""

    def read(self, start: int, stop: int) -> np.ndarray:
        """Tokens start to stop (exclusive)."""


class WindowSource(Protocol):
    """What batches are made of."""

    seq_length: int

    def __len__(self) -> int: ...

    def batch(self, indices: Sequence[int]) -> np.ndarray:
        """int64 [len(indices), seq_length + 1]."""


class Windows:
    """Windows of a split: window i holds tokens i*seq_length to (i+1)*seq_length inclusive.

    The overlap makes every token but the stream's first a target exactly once; a rest shorter than a window is left.
    """

    def __init__(self, store: TokenSource, seq_length: int) -> None:
        if seq_length < 1:
            raise ValueError(f"seq_length {seq_length}")
        self._store = store
        self.seq_length = seq_length

    def __len__(self) -> int:
        return max(0, (self._store.num_tokens - 1) // self.seq_length)

    def __getitem__(self, index: int) -> np.ndarray:
        """int64 [seq_length + 1]."""
        return self.batch([index])[0]

    def batch(self, indices: Sequence[int]) -> np.ndarray:
        """int64 [len(indices), seq_length + 1]."""
        rows = np.empty((len(indices), self.seq_length + 1), dtype=np.int64)
        count = len(self)
        for row, index in zip(rows, indices, strict=True):
            if not 0 <= index < count:
                raise IndexError(f"window {index} of {count}")
            start = index * self.seq_length
            row[:] = self._store.read(start, start + self.seq_length + 1)
        return rows
