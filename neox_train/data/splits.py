"""Dividing documents into splits by a hash of their content, so that a document's split is its own affair.

In a corpus of many documents the hash, as a fraction of 2^64, is compared with the cumulated shares: growing the corpus
moves no document. A small corpus would miss its shares by chance, so there the distinct hashes are ranked and cut at
the shares exactly, with at least one document for every split that has a share. Equal documents share a split.
"""

from __future__ import annotations

import hashlib
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence

_SPACE = 2**64
SMALL_CORPUS_DOCUMENTS = 10_000
"""Below this many distinct documents shares are exact."""


class KeyCollection:
    """Hash keys of a corpus, kept while it is small."""

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._keys: set[int] | None = set()

    def add(self, pieces: Iterable[str]) -> None:
        """Note one document, its text in pieces."""
        if self._keys is not None:
            self._keys.add(hash_pieces(pieces, self._seed))
            if len(self._keys) > SMALL_CORPUS_DOCUMENTS:
                self._keys = None

    def keys(self) -> set[int] | None:
        """The distinct keys, or None where they are too many to be ranked."""
        return self._keys


def hash_pieces(pieces: Iterable[str], seed: int) -> int:
    """A 64-bit key of a document under a seed, the same on every machine and however it is cut into pieces."""
    digest = hashlib.blake2b(digest_size=8, key=str(seed).encode())
    for piece in pieces:
        digest.update(piece.encode("utf-8"))
    return int.from_bytes(digest.digest(), "big")


class Splitter:
    """Which split a document belongs to."""

    def __init__(
        self,
        shares: Mapping[str, float],
        seed: int,
        keys: Iterable[int] | None,
        *,
        bounds: Sequence[int] | None = None,
    ) -> None:
        """``shares`` add up to 1; ``keys`` are all keys of a small corpus, or None; known ``bounds`` replace both."""
        self._seed = seed
        self._names = [name for name, share in shares.items() if share > 0]
        self.only = self._names[0] if len(self._names) == 1 else None
        """The one split of all documents, where only one has a share."""
        self.bounds = list(_find_bounds([shares[name] for name in self._names], keys) if bounds is None else bounds)
        """The key at which each split ends but for the last."""

    def split_of(self, pieces: Iterable[str]) -> str:
        """Name of the split of the document with this text, in pieces; they are not read where all is one split."""
        if self.only is not None:
            return self.only
        return self._names[bisect_right(self.bounds, hash_pieces(pieces, self._seed))]


def _find_bounds(fractions: list[float], keys: Iterable[int] | None) -> list[int]:
    total = sum(fractions)
    cumulated = [sum(fractions[: place + 1]) / total for place in range(len(fractions) - 1)]
    if keys is None:
        return [round(fraction * _SPACE) for fraction in cumulated]
    ranked = sorted(set(keys))
    return [ranked[cut] if cut < len(ranked) else _SPACE for cut in _cut(len(ranked), cumulated)]


def _cut(count: int, cumulated: list[float]) -> list[int]:
    """Ranks at which the splits end but for the last; none is left empty where there are documents for all."""
    cuts = [round(fraction * count) for fraction in cumulated]
    if count > len(cumulated):
        for place in range(len(cuts)):
            cuts[place] = max(cuts[place], cuts[place - 1] + 1 if place else 1)
        for place in reversed(range(len(cuts))):
            cuts[place] = min(cuts[place], count - (len(cuts) - place))
    else:
        cuts = [max(cut, 1) for cut in cuts]
    return cuts
