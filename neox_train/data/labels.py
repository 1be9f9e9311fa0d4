"""Label files beside token files: which tokens are no targets, marked in the tokens themselves.

A label is the token it stands beside, or below 0 where that token is not to be learned (GPT-NeoX writes -100). A
window carries the mark with the token: token t that is no target is ~t = -1 - t.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from neox_train.data.mmap_files import MmapTokens
from neox_train.errors import DataError


class LabelledTokens:
    """Items of a .bin/.idx pair with the marks of another; the same interface as the tokens alone."""

    def __init__(self, tokens: MmapTokens, labels: MmapTokens, labels_prefix: Path) -> None:
        self._tokens = tokens
        self._labels = labels
        self._prefix = labels_prefix
        self.sizes = tokens.sizes

    @classmethod
    def open(cls, prefix: Path, labels_prefix: Path, vocab_size: int | None = None) -> LabelledTokens:
        """Open both; raises DataError where they are not items of the same lengths."""
        tokens, labels = MmapTokens.open(prefix, vocab_size), MmapTokens.open(labels_prefix)
        if not np.array_equal(tokens.sizes, labels.sizes):
            raise DataError(
                f"{labels_prefix} has {len(labels)} items of {int(labels.sizes.sum(dtype=np.int64))} labels, {prefix} "
                f"{len(tokens)} of {int(tokens.sizes.sum(dtype=np.int64))} tokens; each token wants a label: make the "
                "two from the same text"
            )
        return cls(tokens, labels, labels_prefix)

    def __len__(self) -> int:
        return len(self._tokens)

    def check(self, ids: np.ndarray) -> None:
        """Raise DataError where marked ids that were read are beyond the vocabulary, if it was given."""
        self._tokens.check(np.where(ids < 0, ~ids, ids))

    def part(self, item: int, start: int, stop: int) -> np.ndarray:
        """Tokens start to stop (exclusive) of one item, int64, marked; raises DataError for a label that is another
        token.
        """
        tokens = self._tokens.part(item, start, stop).astype(np.int64)
        labels = self._labels.part(item, start, stop).astype(np.int64)
        masked = labels < 0
        wrong = np.flatnonzero(~masked & (labels != tokens))
        if len(wrong):
            place = int(wrong[0])
            raise DataError(
                f"{self._prefix}: item {item} has at place {start + place} the label {int(labels[place])} beside token "
                f"{int(tokens[place])}; a label is its token, or -100 where that is not to be learned"
            )
        return np.where(masked, ~tokens, tokens)


def open_items(prefix: Path, labels_prefix: Path | None, vocab_size: int | None = None) -> MmapTokens | LabelledTokens:
    """Token files with their labels, where there are any; ids are compared with ``vocab_size`` where it is given."""
    if labels_prefix is None:
        return MmapTokens.open(prefix, vocab_size)
    return LabelledTokens.open(prefix, labels_prefix, vocab_size)
