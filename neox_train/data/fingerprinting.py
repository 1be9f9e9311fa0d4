"""Hashing the files of a corpus beside the work on them, and making sure that both saw the same bytes."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

from neox_train.data.sources import SourceFile
from neox_train.errors import DataError

_CHUNK_BYTES = 1 << 20
Records = list[dict[str, Any]]


@contextmanager
def fingerprint_alongside(files: Sequence[SourceFile]) -> Iterator[Callable[[], Records]]:
    """Yield a function that waits for the records of all files (name, bytes, time of last change, SHA-256).

    It raises DataError where a file cannot be read, or changed since the block began: what was read in the block may
    then be other than what was hashed. Leaving the block ends the hashing.
    """
    before = [look_at(file) for file in files]
    stopped = threading.Event()
    with ThreadPoolExecutor(max_workers=1, thread_name_prefix="fingerprints") as pool:
        hashes = pool.submit(lambda: [_hash(file, stopped) for file in files])

        def wait() -> Records:
            found = hashes.result()
            for file, seen in zip(files, before, strict=True):
                if look_at(file) != seen:
                    raise DataError(f"{file.name} changed while it was read; repeat the same command")
            return [
                {"name": file.name, **seen, "sha256": digest}
                for file, seen, digest in zip(files, before, found, strict=True)
            ]

        try:
            yield wait
        finally:
            stopped.set()


def look_at(file: SourceFile) -> dict[str, int]:
    """Size and time of the last change, by which a file is known again; DataError where it cannot be read."""
    try:
        stat = file.path.stat()
    except OSError as error:
        raise DataError(f"{file.name} cannot be read ({error.strerror}); bring it back or correct the path") from error
    return {"bytes": stat.st_size, "changed_ns": stat.st_ctime_ns}


def _hash(file: SourceFile, stopped: threading.Event) -> str:
    digest = hashlib.sha256()
    try:
        with open(file.path, "rb") as stream:
            while not stopped.is_set() and (chunk := stream.read(_CHUNK_BYTES)):
                digest.update(chunk)
    except OSError as error:
        raise DataError(f"{file.name} cannot be read ({error.strerror}); give read permission or correct it") from error
    return digest.hexdigest()
