"""Reading a tokenized dataset: every shard is mapped into memory by its tokens' offset in the HDF5 file.

No HDF5 virtual dataset joins the shards: a virtual dataset cannot be mapped, and reads a missing shard as zeros.
"""

from __future__ import annotations

import os
from bisect import bisect_right
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from pathlib import Path

import numpy as np

from neox_train.data.manifest import Manifest, Shard, load_manifest
from neox_train.data.shards import DOCUMENT_OFFSETS, TOKENS
from neox_train.errors import DataError


@dataclass(frozen=True)
class MappedShard:
    """One shard's arrays, mapped read-only."""

    tokens: np.ndarray
    document_offsets: np.ndarray
    """int64 [documents + 1], from 0 to the shard's number of tokens."""


def map_shard(folder: Path, shard: Shard, manifest: Manifest) -> MappedShard:
    """Map a shard; raises DataError when it is absent, cut short or not what the manifest says."""
    path, remedy = folder / shard.file, manifest.remedy
    dtype = np.dtype(manifest.dtype).newbyteorder("<")
    import h5py

    try:
        with open(path, "rb") as stream:
            size = os.fstat(stream.fileno()).st_size
    except FileNotFoundError as error:
        raise DataError(f"{path} is missing ({error.strerror}); bring it back, or {remedy}") from error
    except OSError as error:
        raise DataError(f"{path} cannot be read ({error.strerror}); give read permission or copy it anew") from error
    if size != shard.bytes:
        raise DataError(f"{path} has {size} bytes, the manifest says {shard.bytes}; copy it anew, or {remedy}")
    try:
        with h5py.File(path, "r", locking=False) as file:
            tokens = _map_dataset(path, file, TOKENS, dtype, shard.tokens, remedy)
            offsets = _map_dataset(path, file, DOCUMENT_OFFSETS, np.dtype("<i8"), shard.documents + 1, remedy)
    except (OSError, KeyError, RuntimeError) as error:
        raise DataError(f"{path} is no token shard ({error}); copy it anew, or {remedy}") from error
    return MappedShard(tokens, offsets)


def _map_dataset(path: Path, file: object, name: str, dtype: np.dtype, length: int, remedy: str) -> np.ndarray:
    dataset = file[name]  # type: ignore[index]
    offset = dataset.id.get_offset()
    if dataset.dtype != dtype or dataset.shape != (length,) or offset is None:
        raise DataError(
            f"{path}: `{name}` is {dataset.dtype} {dataset.shape}, a contiguous {dtype} ({length},) is wanted; "
            f"copy it anew, or {remedy}"
        )
    # A plain array over the map: slicing np.memmap itself costs several times as much.
    return np.memmap(path, dtype=dtype, mode="r", offset=offset, shape=(length,)).view(np.ndarray)


class TokenStore:
    """The tokens of one split as one long array over its shards, in the manifest's order."""

    def __init__(self, split: str, shards: list[MappedShard], dtype: np.dtype) -> None:
        self.split = split
        self.dtype = dtype
        self._shards = shards
        self._token_starts = list(accumulate((len(shard.tokens) for shard in shards), initial=0))
        self._document_starts = list(accumulate((len(shard.document_offsets) - 1 for shard in shards), initial=0))

    @classmethod
    def open(cls, folder: Path, split: str) -> TokenStore:
        """Open a split of the dataset in ``folder``; a split without documents opens as an empty store.

        Raises DataError for an unknown split, and for shards that are absent, of another size or of another type.
        """
        folder = Path(folder)
        manifest = load_manifest(folder)
        return cls(split, map_split(folder, manifest, split), np.dtype(manifest.dtype).newbyteorder("<"))

    @property
    def num_tokens(self) -> int:
        """Tokens of the split, end-of-document tokens among them."""
        return self._token_starts[-1]

    @property
    def num_documents(self) -> int:
        """Documents of the split."""
        return self._document_starts[-1]

    @cached_property
    def document_offsets(self) -> np.ndarray:
        """int64 [num_documents + 1]: document i is tokens offsets[i] to offsets[i+1], its end-of-document included."""
        parts = [
            shard.document_offsets[1:] + start
            for shard, start in zip(self._shards, self._token_starts[:-1], strict=True)
        ]
        return np.concatenate([np.zeros(1, dtype=np.int64), *parts])

    def read(self, start: int, stop: int) -> np.ndarray:
        """Tokens start to stop (exclusive) in the store's dtype: a view of the map, or a copy across shards."""
        if not 0 <= start <= stop <= self.num_tokens:
            raise IndexError(f"tokens {start} to {stop} of a store with {self.num_tokens} tokens")
        index = bisect_right(self._token_starts, start) - 1
        if start < stop <= self._token_starts[index + 1]:
            base = self._token_starts[index]
            return self._shards[index].tokens[start - base : stop - base]
        return self._join(index, start, stop)

    def _join(self, index: int, start: int, stop: int) -> np.ndarray:
        parts = [np.zeros(0, dtype=self.dtype)]
        while start < stop:
            base, end = self._token_starts[index], min(stop, self._token_starts[index + 1])
            parts.append(self._shards[index].tokens[start - base : end - base])
            start, index = end, index + 1
        return np.concatenate(parts)

    def document(self, index: int) -> np.ndarray:
        """Ids of one document in the store's dtype, the closing end-of-document token included."""
        if not 0 <= index < self.num_documents:
            raise IndexError(f"document {index} of a store with {self.num_documents} documents")
        place = bisect_right(self._document_starts, index) - 1
        shard = self._shards[place]
        local = index - self._document_starts[place]
        return shard.tokens[int(shard.document_offsets[local]) : int(shard.document_offsets[local + 1])]


def map_split(folder: Path, manifest: Manifest, split: str) -> list[MappedShard]:
    """Map every shard of a split."""
    if split not in manifest.splits:
        raise DataError(f"{folder} has no split `{split}`; name one it has: {', '.join(manifest.splits)}")
    return [map_shard(folder, shard, manifest) for shard in manifest.splits[split].shards]
