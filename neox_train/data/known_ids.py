"""Whether token ids lie within a vocabulary: files made with another tokenizer are told in a sentence, not by a GPU."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from neox_train.errors import DataError

_BLOCKS = 256
_BLOCK_TOKENS = 1 << 14


def require_known_ids(ids: np.ndarray, vocab_size: int, file: Path) -> None:
    """Raise DataError where one of ``ids`` (integers of any shape) is below 0 or not below ``vocab_size``."""
    if not ids.size:
        return
    low, high = int(ids.min()), int(ids.max())
    if low < 0 or high >= vocab_size:
        raise DataError(
            f"{file} has the token id {low if low < 0 else high}, and the tokenizer has {vocab_size} ids, 0 to "
            f"{vocab_size - 1}; set `vocab_file` to the tokenizer that made the files, or `vocab_size` to its ids"
        )


def require_known_sample(ids: np.ndarray, vocab_size: int, file: Path) -> None:
    """The same of ids [length] that may be too many to read: evenly spread blocks of them, the first and last too."""
    last = max(0, len(ids) - _BLOCK_TOKENS)
    for start in np.unique(np.linspace(0, last, _BLOCKS).astype(np.int64)):
        require_known_ids(ids[start : start + _BLOCK_TOKENS], vocab_size, file)
