"""Writing a split's tokens: a shard streams to a file that becomes one HDF5 file with contiguous datasets.

Contiguous, because a reader then maps the tokens by their offset in the file. HDF5 cannot grow a contiguous dataset, so
the tokens are written by plain writes behind a gap, at the offset that HDF5 gives the first dataset whatever its size;
when their number is known HDF5 lays out a file of that size, and what it wrote around the tokens goes around these.
Memory stays at one batch's ids and one shard's document lengths.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from array import array
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import cache
from pathlib import Path

import numpy as np

from neox_train.data.manifest import FORMAT_VERSION, Shard, Split
from neox_train.errors import DataError, StorageError
from neox_train.files import OTHER_DISK, flush_to_disk, free_bytes, sha256_file, storage_errors

TOKENS = "tokens"
DOCUMENT_OFFSETS = "document_offsets"
MAX_TOKENS_PER_SHARD = 2**30
MAX_DOCUMENTS_PER_SHARD = 2**24
_BUFFER_BYTES = 1 << 22
_HEADER_BYTES = 1 << 14


def store_dtype(vocab_size: int) -> np.dtype:
    """Little-endian uint16 where every id fits (up to 65536 ids), else uint32."""
    if vocab_size > 2**32:
        raise DataError(f"the tokenizer has {vocab_size} ids, a token store holds at most {2**32}; use a smaller one")
    return np.dtype("<u2") if vocab_size <= 2**16 else np.dtype("<u4")


class SplitWriter:
    """Appends documents to the shards of one split; ``finish`` gives the split's record.

    ``shard_path(index)`` names the shard files. ``close`` without ``finish`` removes the shard in progress.
    """

    def __init__(
        self,
        shard_path: Callable[[int], Path],
        *,
        vocab_size: int,
        eod_id: int,
        tokenizer_sha256: str,
        max_tokens_per_shard: int = MAX_TOKENS_PER_SHARD,
    ) -> None:
        self._shard_path = shard_path
        self._vocab_size = vocab_size
        self._eod_id = eod_id
        self._tokenizer_sha256 = tokenizer_sha256
        self._max_tokens = max_tokens_per_shard
        self._dtype = store_dtype(vocab_size)
        self._shards: list[Shard] = []
        self._bytes = 0
        self._current: _RawShard | None = None

    def append(self, ids: np.ndarray, text_bytes: int) -> None:
        """Add one document: its ids without end-of-document token (added here) and the UTF-8 bytes of its text."""
        tokens = np.append(ids, np.array([self._eod_id], dtype=ids.dtype))
        self.append_documents(tokens, np.array([len(tokens)], dtype=np.int64), text_bytes)

    def append_documents(self, tokens: np.ndarray, lengths: np.ndarray, text_bytes: int) -> None:
        """Add documents back to back: ``tokens`` [sum of lengths], each document's end-of-document token in it.

        Raises DataError for an id outside the vocabulary, StorageError where the disk is full.
        """
        self._check(tokens)
        self._bytes += text_bytes
        start = first = 0
        while first < len(lengths):
            if self._current is None:
                self._current = _RawShard(self._shard_path(len(self._shards)), self._dtype)
            count = self._current.count_fitting(lengths[first:], self._max_tokens)
            stop = start + int(lengths[first : first + count].sum())
            self._current.append(tokens[start:stop], lengths[first : first + count])
            start, first = stop, first + count
            if first < len(lengths):
                self._finish_shard()

    def append_pieces(self, pieces: Iterable[np.ndarray], text_bytes: int) -> int:
        """Add one document whose ids, without end-of-document token, come in pieces; returns its tokens.

        Nothing is added for a document without ids. The ids wait in a file: only their number tells which shard they
        go to. Raises as ``append_documents``, and what ``pieces`` raise.
        """
        first = self._shard_path(len(self._shards))
        waiting = first.with_name(f".{first.name}.long-{os.getpid()}")
        tokens = 0
        try:
            with storage_errors(waiting), open(waiting, "wb", buffering=_BUFFER_BYTES) as stream:
                for ids in pieces:
                    self._check(ids)
                    stream.write(ids.astype(self._dtype, copy=False).data)
                    tokens += len(ids)
                stream.write(np.array([self._eod_id], self._dtype).data)
            if not tokens:
                return 0
            lengths = np.array([tokens + 1], dtype=np.int64)
            if self._current is not None and not self._current.count_fitting(lengths, self._max_tokens):
                self._finish_shard()
            if self._current is None:
                self._current = _RawShard(self._shard_path(len(self._shards)), self._dtype)
            self._current.append_file(waiting, tokens + 1)
            self._bytes += text_bytes
            return tokens + 1
        finally:
            waiting.unlink(missing_ok=True)

    def finish(self) -> Split:
        """Complete the last shard."""
        if self._current is not None:
            self._finish_shard()
        return Split(
            documents=sum(shard.documents for shard in self._shards),
            tokens=sum(shard.tokens for shard in self._shards),
            bytes=self._bytes,
            shards=tuple(self._shards),
        )

    def close(self) -> None:
        """Remove the shard in progress, if there is one."""
        if self._current is not None:
            self._current.discard()
            self._current = None

    def _check(self, tokens: np.ndarray) -> None:
        if len(tokens) and int(tokens.max()) >= self._vocab_size:
            raise DataError(
                f"the tokenizer gave id {int(tokens.max())}, its vocabulary has {self._vocab_size} ids; "
                "the tokenizer.json is inconsistent, export it again"
            )

    def _finish_shard(self) -> None:
        assert self._current is not None
        attributes: dict[str, int | str] = {
            "format_version": FORMAT_VERSION,
            "tokenizer_sha256": self._tokenizer_sha256,
            "vocab_size": self._vocab_size,
            "eod_id": self._eod_id,
        }
        self._shards.append(self._current.finish(attributes))
        self._current = None


class _RawShard:
    """One shard while its size is unknown: token bytes in a raw file, document offsets in memory."""

    def __init__(self, path: Path, dtype: np.dtype) -> None:
        self._path = path
        self._dtype = dtype
        self._offsets = array("q", [0])
        self._raw_path = path.with_name(f".{path.name}.raw-{os.getpid()}")
        with storage_errors(path):
            self._raw = open(self._raw_path, "wb", buffering=_BUFFER_BYTES)  # noqa: SIM115
            self._raw.seek(_tokens_offset(dtype))

    @property
    def tokens(self) -> int:
        return self._offsets[-1]

    @property
    def documents(self) -> int:
        return len(self._offsets) - 1

    def count_fitting(self, lengths: np.ndarray, max_tokens: int) -> int:
        """How many of the next documents this shard takes; an empty shard takes at least one."""
        ends = self.tokens + np.cumsum(lengths[: MAX_DOCUMENTS_PER_SHARD - self.documents])
        fitting = int(np.searchsorted(ends, max_tokens, side="right"))
        return max(fitting, 1) if self.documents == 0 else fitting

    def append(self, tokens: np.ndarray, lengths: np.ndarray) -> None:
        ends = self.tokens + np.cumsum(lengths, dtype=np.int64)
        with storage_errors(self._path):
            self._raw.write(tokens.astype(self._dtype, copy=False).data)
        self._offsets.frombytes(ends.tobytes())

    def append_file(self, path: Path, tokens: int) -> None:
        """Add one document that lies in a file."""
        with storage_errors(self._path), open(path, "rb") as stream:
            shutil.copyfileobj(stream, self._raw, _BUFFER_BYTES)
        self._offsets.append(self.tokens + tokens)

    def finish(self, attributes: dict[str, int | str]) -> Shard:
        layout = self._path.with_name(f".{self._path.name}.layout-{os.getpid()}")
        try:
            with storage_errors(self._path):
                self._raw.close()
                self._require_room()
                start = _create_hdf5(layout, self._dtype, self._offsets, attributes)
                stop = start + self.tokens * self._dtype.itemsize
                _copy_around(layout, self._raw_path, start, stop)
                sha256 = _flush_and_hash(self._raw_path)
                os.replace(self._raw_path, self._path)
                flush_to_disk(self._path.parent)
        finally:
            layout.unlink(missing_ok=True)
            self.discard()
        return Shard(
            file=self._path.name,
            sha256=sha256,
            bytes=self._path.stat().st_size,
            tokens=self.tokens,
            documents=self.documents,
        )

    def discard(self) -> None:
        # A buffered rest may find no room either; the file goes, and the error that brought us here is the one to show.
        with suppress(OSError):
            self._raw.close()
        self._raw_path.unlink(missing_ok=True)

    def _require_room(self) -> None:
        needed = 2 * (len(self._offsets) * 8 + _HEADER_BYTES)
        free = free_bytes(self._path)
        if free < needed:
            raise StorageError(
                f"{self._path}: the disk is full ({needed} bytes needed, {free} bytes free); "
                f"make room or {OTHER_DISK}, then repeat"
            )


def _create_hdf5(path: Path, dtype: np.dtype, offsets: array[int], attributes: dict[str, int | str]) -> int:
    """Create the shard with its tokens allocated but not yet written; returns their byte position in the file."""
    import h5py

    creation = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    creation.set_layout(h5py.h5d.CONTIGUOUS)
    creation.set_alloc_time(h5py.h5d.ALLOC_TIME_EARLY)
    creation.set_fill_time(h5py.h5d.FILL_TIME_NEVER)
    creation.set_obj_track_times(False)
    with h5py.File(path, "w", libver="earliest", locking=False) as file:
        space = h5py.h5s.create_simple((offsets[-1],))
        tokens = h5py.h5d.create(file.id, TOKENS.encode(), h5py.h5t.py_create(dtype), space, creation)
        file.create_dataset(DOCUMENT_OFFSETS, data=np.frombuffer(offsets, dtype=np.int64).astype("<i8"))
        for name, value in attributes.items():
            file.attrs[name] = value
        file.attrs["tokens"] = offsets[-1]
        file.attrs["documents"] = len(offsets) - 1
        return int(tokens.get_offset())


def _copy_around(layout: Path, target: Path, start: int, stop: int) -> None:
    """Copy what lies before byte ``start`` and from ``stop`` on; ``target`` has the tokens between."""
    with open(layout, "rb") as source, open(target, "r+b") as file:
        file.write(source.read(start))
        file.seek(stop)
        source.seek(stop)
        shutil.copyfileobj(source, file, _BUFFER_BYTES)


def _flush_and_hash(path: Path) -> str:
    """SHA-256 of a file that is on the disk afterwards: the disk and the processor are busy at the same time."""
    with ThreadPoolExecutor(1, thread_name_prefix="flush") as pool:
        flushed = pool.submit(flush_to_disk, path)
        digest = sha256_file(path)
        flushed.result()
    return digest


@cache
def _tokens_offset(dtype: np.dtype) -> int:
    with tempfile.TemporaryDirectory() as folder:
        return _create_hdf5(Path(folder) / "one.h5", dtype, array("q", [0, 1]), {})
