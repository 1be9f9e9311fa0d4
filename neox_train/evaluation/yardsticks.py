"""What the model is measured against on the same bytes: a unigram-token model and ``xz -9``."""

from __future__ import annotations

import lzma
import math
from collections.abc import Iterable

import numpy as np

UNIGRAM_METHOD = (
    "Token frequencies of the train split with one added to every count, coding the same held-out tokens, "
    "end-of-document tokens included."
)
XZ_METHOD = (
    "Size of `xz -9` over the concatenated held-out documents. It starts cold, without having seen the train split, "
    "and pays nothing for the boundaries between documents."
)


def count_tokens(chunks: Iterable[np.ndarray], *, vocab_size: int) -> np.ndarray:
    """Occurrences of each token id, int64 [vocab_size], over arrays of ids."""
    counts = np.zeros(vocab_size, dtype=np.int64)
    for chunk in chunks:
        counts += np.bincount(chunk, minlength=vocab_size)
    return counts


def unigram_bits(train_counts: np.ndarray, held_out_counts: np.ndarray) -> float:
    """Bits that a unigram model with add-one smoothing of ``train_counts`` needs for the held-out tokens."""
    log_total = math.log2(int(train_counts.sum()) + len(train_counts))
    code_lengths = log_total - np.log2(train_counts.astype(np.float64) + 1)
    return float((held_out_counts * code_lengths).sum())


def xz_bytes(documents: Iterable[bytes]) -> int:
    """Bytes of the .xz file that ``xz -9`` makes of the concatenated documents."""
    compressor = lzma.LZMACompressor(format=lzma.FORMAT_XZ, check=lzma.CHECK_CRC64, preset=9)
    size = sum(len(compressor.compress(document)) for document in documents)
    return size + len(compressor.flush())
