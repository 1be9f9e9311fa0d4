"""Ids of several documents, back to back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np


@dataclass(frozen=True, slots=True)
class EncodedBatch:
    """Document i is ``ids[offsets[i] : offsets[i + 1]]``."""

    ids: np.ndarray
    """uint32 [tokens]."""
    offsets: np.ndarray
    """int64 [documents + 1], from 0."""

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, index: int) -> np.ndarray:
        return self.ids[self.offsets[index] : self.offsets[index + 1]]


def flatten_ids(documents: Sequence[Sequence[int]]) -> EncodedBatch:
    """One array of lists of ids."""
    offsets = np.zeros(len(documents) + 1, dtype=np.int64)
    np.cumsum([len(ids) for ids in documents], out=offsets[1:])
    return EncodedBatch(np.fromiter(chain.from_iterable(documents), np.uint32, int(offsets[-1])), offsets)
