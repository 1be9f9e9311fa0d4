"""The .bin/.idx pair of GPT-NeoX and Megatron: token arrays back to back, and an index of their sizes and places.

Layout of the index, little-endian: 9 bytes of magic, uint64 version 1, uint8 dtype code, uint64 items, uint64 entries
of the document index; then int32 sizes [items] in tokens, int64 pointers [items] in bytes of the .bin file, int64
document index [documents + 1] in items.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from neox_train.data.known_ids import require_known_ids, require_known_sample
from neox_train.data.pair_files import explain_unread, pair_paths
from neox_train.data.store import TokenStore
from neox_train.errors import DataError
from neox_train.files import atomic_path

_MAGIC = b"MMIDIDX\x00\x00"
_HEADER = struct.Struct("<9sQBQQ")
_VERSION = 1
_DTYPES = {1: "u1", 2: "i1", 3: "<i2", 4: "<i4", 5: "<i8", 8: "<u2"}
"""Token types by their code; 6 and 7 are float32 and float64, which hold no tokens."""
_UINT16_BELOW_VOCAB = 65500
"""GPT-NeoX writes uint16 below this many ids and int32 from it on, whatever uint16 could hold."""
_CHUNK_TOKENS = 1 << 22


def export_dtype_code(vocab_size: int) -> int:
    """Type code that GPT-NeoX gives a vocabulary: 8 (uint16) or 4 (int32)."""
    return 8 if vocab_size < _UINT16_BELOW_VOCAB else 4


def export_mmap(store: TokenStore, prefix: Path, *, vocab_size: int) -> tuple[Path, Path]:
    """Write ``prefix.bin`` and ``prefix.idx`` with one item a document; returns both paths. The index comes last."""
    code = export_dtype_code(vocab_size)
    dtype = np.dtype(_DTYPES[code])
    sizes = np.diff(store.document_offsets)
    if len(sizes) and sizes.max() >= 2**31:
        raise DataError(
            f"document {int(sizes.argmax())} has {int(sizes.max())} tokens, an .idx file holds at most {2**31 - 1} "
            "a document; split it in the corpus"
        )
    bin_path, idx_path = pair_paths(prefix)
    with atomic_path(bin_path) as temporary, open(temporary, "wb") as stream:
        for start in range(0, store.num_tokens, _CHUNK_TOKENS):
            stream.write(store.read(start, min(start + _CHUNK_TOKENS, store.num_tokens)).astype(dtype).tobytes())
        # An older index must not lie beside newer tokens, not even for a moment.
        idx_path.unlink(missing_ok=True)
    with atomic_path(idx_path) as temporary, open(temporary, "wb") as stream:
        stream.write(_HEADER.pack(_MAGIC, _VERSION, code, len(sizes), len(sizes) + 1))
        stream.write(sizes.astype("<i4").tobytes())
        stream.write((store.document_offsets[:-1] * dtype.itemsize).astype("<i8").tobytes())
        stream.write(np.arange(len(sizes) + 1, dtype="<i8").tobytes())
    return bin_path, idx_path


class MmapTokens:
    """A .bin/.idx pair, mapped; its items are the documents, as they are to GPT-NeoX's training."""

    def __init__(
        self, tokens_path: Path, dtype: np.dtype, sizes: np.ndarray, pointers: np.ndarray, vocab_size: int | None = None
    ) -> None:
        self._path, self._vocab_size = tokens_path, vocab_size
        self._bytes = (
            np.memmap(tokens_path, mode="r").view(np.ndarray) if tokens_path.stat().st_size else np.zeros(0, "u1")
        )
        self.dtype = dtype
        self.sizes = sizes
        self._pointers = pointers

    @classmethod
    def open(cls, prefix: Path, vocab_size: int | None = None) -> MmapTokens:
        """Open ``prefix.bin`` and ``prefix.idx``; raises DataError where they are not a whole pair of token files.

        With a ``vocab_size`` a sample of the ids is compared with it now, and the others as they are read.
        """
        bin_path, idx_path = pair_paths(prefix)
        try:
            index, bin_bytes = idx_path.read_bytes(), bin_path.stat().st_size
        except OSError as error:
            raise DataError(explain_unread(error)) from error
        if not index.startswith(_MAGIC) or len(index) < _HEADER.size:
            raise DataError(f"{idx_path} is no index of memory-mapped token files; export the data in that format")
        _, version, code, items, entries = _HEADER.unpack_from(index)
        if version != _VERSION or code not in _DTYPES:
            raise DataError(
                f"{idx_path} has version {version} and type code {code}; 1 and an integer type are wanted, "
                "export it again"
            )
        wanted = _HEADER.size + 12 * items + 8 * entries
        if len(index) != wanted:
            raise DataError(f"{idx_path} has {len(index)} bytes, its header says {wanted}; fetch or write it again")
        sizes = np.frombuffer(index, "<i4", items, _HEADER.size)
        pointers = np.frombuffer(index, "<i8", items, _HEADER.size + 4 * items)
        dtype = np.dtype(_DTYPES[code])
        ends = pointers + sizes.astype(np.int64) * dtype.itemsize
        if items and (sizes.min() < 0 or pointers.min() < 0 or ends.max() > bin_bytes):
            raise DataError(
                f"{bin_path} has {bin_bytes} bytes, its index points at byte {int(ends.max())}; fetch or write it again"
            )
        try:
            opened = cls(bin_path, dtype, sizes, pointers, vocab_size)
        except OSError as error:
            raise DataError(explain_unread(error)) from error
        if vocab_size is not None:
            whole = bin_bytes // dtype.itemsize * dtype.itemsize
            require_known_sample(opened._bytes[:whole].view(dtype), vocab_size, bin_path)
        return opened

    def __len__(self) -> int:
        return len(self.sizes)

    def __iter__(self) -> Iterator[np.ndarray]:
        return (self[index] for index in range(len(self)))

    def __getitem__(self, index: int) -> np.ndarray:
        """Ids of one item in the files' dtype."""
        if not 0 <= index < len(self):
            raise IndexError(f"item {index} of {len(self)}")
        return self.part(index, 0, int(self.sizes[index]))

    def check(self, ids: np.ndarray) -> None:
        """Raise DataError where ids that were read are beyond the vocabulary, if it was given."""
        if self._vocab_size is not None:
            require_known_ids(ids, self._vocab_size, self._path)

    def part(self, item: int, start: int, stop: int) -> np.ndarray:
        """Ids start to stop (exclusive) of one item, in the files' dtype."""
        begin, width = int(self._pointers[item]), self.dtype.itemsize
        return self._bytes[begin + start * width : begin + stop * width].view(self.dtype)
