"""Ids of several documents, back to back, as an encoder gives them and as a store takes them."""

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


@dataclass(frozen=True, slots=True)
class ClosedBatch:
    """Documents that gave tokens, each with its end-of-document token, in a store's type."""

    tokens: np.ndarray
    """[sum of lengths]; of the encoder's wider type where an id does not fit, which the writer refuses."""
    lengths: np.ndarray
    """int64 [documents], the end-of-document token counted."""
    places: list[int]
    """Which documents of the encoded batch these are."""


def close_documents(encoded: EncodedBatch, eod_id: int, dtype: np.dtype) -> ClosedBatch:
    """Leave out documents without tokens and end each other one by ``eod_id``.

    Ids are narrowed to ``dtype`` first, which halves what is moved.
    """
    lengths = np.diff(encoded.offsets)
    kept = np.flatnonzero(lengths)
    ids = encoded.ids.astype(dtype) if encoded.ids.max(initial=0) <= np.iinfo(dtype).max else encoded.ids
    tokens = np.insert(ids, encoded.offsets[1:][kept], eod_id)
    return ClosedBatch(tokens, lengths[kept] + 1, kept.tolist())
