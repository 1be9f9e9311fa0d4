"""Atomic files: what a later stage trusts is written beside its place, flushed, and renamed.

Only the standard library is used, because login nodes import this.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from neox_train.errors import StorageError

OTHER_DISK = "put it on another disk (`results:` of the cluster file; with `neox-train train`, `save` or --run-dir)"
"""What to do where a disk is full or not writable."""
_STORAGE_ERRNOS = {
    errno.ENOSPC,
    errno.EDQUOT,
    errno.EROFS,
    errno.EACCES,
    errno.EPERM,
    errno.ENOTDIR,
    errno.EISDIR,
    errno.EIO,
}


@contextmanager
def storage_errors(path: Path, *, needed_bytes: int | None = None) -> Iterator[None]:
    """Turn the operating system's write errors on ``path`` into one sentence (StorageError)."""
    try:
        yield
    except OSError as error:
        if error.errno not in _STORAGE_ERRNOS:
            raise
        raise StorageError(_storage_sentence(path, error, needed_bytes)) from error


def _storage_sentence(path: Path, error: OSError, needed_bytes: int | None) -> str:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        free = free_bytes(path)
        needed = f"{needed_bytes} bytes needed, " if needed_bytes is not None else ""
        reason = "the disk is full" if error.errno == errno.ENOSPC else "the quota is used up"
        return f"{path}: {reason} ({needed}{free} bytes free); make room or {OTHER_DISK}, then repeat"
    if error.errno == errno.EISDIR:
        # The system names the folder itself where a rename met it under another name than ``path``.
        place = error.filename2 or error.filename or path
        return f"{place} is a folder, a file is wanted there; move it away, then repeat"
    return f"{path} cannot be written ({os.strerror(error.errno or 0)}); give write permission or {OTHER_DISK}"


def free_bytes(path: Path) -> int:
    """Free bytes for this user on the file system that holds ``path`` (or its nearest existing parent)."""
    place = Path(path).absolute()
    while not place.exists():
        place = place.parent
    return shutil.disk_usage(place).free


def make_folder(path: Path) -> Path:
    """Create ``path`` and its parents; raises StorageError in one sentence when that is not allowed."""
    with storage_errors(path):
        try:
            path.mkdir(parents=True, exist_ok=True)
        except FileExistsError as error:
            raise StorageError(f"{path} is a file, a folder is wanted there; move it away") from error
        except OSError as error:
            # A path without sense (under /proc, too long, a loop of links) is a mistake like any other here.
            raise StorageError(_storage_sentence(path, error, None)) from error
    return path


def check_folder(path: Path) -> None:
    """Raise StorageError where ``path``, or a part of it, is a file; nothing is created."""
    for place in (path, *path.parents):
        if place.exists():
            if not place.is_dir():
                raise StorageError(f"{place} is a file, a folder is wanted there; move it away")
            return


@contextmanager
def atomic_path(path: Path) -> Iterator[Path]:
    """Yield a temporary path in the same folder; flush and rename it to ``path`` if the block succeeds.

    On any failure the temporary file is removed and ``path`` is left as it was.
    """
    path = Path(path)
    make_folder(path.parent)
    temporary = path.with_name(f".{path.name}.tmp-{os.getpid()}")
    try:
        with storage_errors(path):
            yield temporary
            flush_to_disk(temporary)
            os.replace(temporary, path)
            flush_to_disk(path.parent)
    finally:
        temporary.unlink(missing_ok=True)


def flush_to_disk(path: Path) -> None:
    """fsync a file or a folder (folders quietly where the file system refuses it)."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if not Path(path).is_dir() or error.errno not in (errno.EINVAL, errno.ENOTSUP):
            raise
    finally:
        os.close(descriptor)


def write_text(path: Path, text: str) -> None:
    """Write UTF-8 text atomically."""
    with atomic_path(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def write_json(path: Path, value: Any) -> None:
    """Write JSON atomically, keys in the given order, floats as the shortest text that reads back equal."""
    write_text(path, json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n")


def read_json(path: Path) -> Any:
    """Read a JSON file; None where it does not exist."""
    try:
        return json.loads(Path(path).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None


def read_record(path: Path) -> dict[str, Any] | None:
    """Read a JSON object; None where there is no file. Raises StorageError, one sentence, where it is cut or other."""
    try:
        with storage_errors(path):
            content = read_json(path)
    except ValueError as error:
        raise StorageError(f"{path} is no whole JSON file (cut or overwritten); move it away, then repeat") from error
    if content is not None and not isinstance(content, dict):
        raise StorageError(f"{path} holds no JSON object; move it away, then repeat")
    return content


def find_record(path: Path) -> dict[str, Any] | None:
    """Read a JSON object; None where there is none, whatever the reason."""
    try:
        return read_record(path)
    except (StorageError, OSError):
        return None


def sha256_file(path: Path, *, chunk_bytes: int = 1 << 20) -> str:
    """Hex SHA-256 of a file's bytes, read in chunks."""
    digest = hashlib.sha256()
    with open(path, "rb") as stream:
        while chunk := stream.read(chunk_bytes):
            digest.update(chunk)
    return digest.hexdigest()


def sha256_json(value: Any) -> str:
    """Hex SHA-256 of a value's canonical JSON (sorted keys): equal values give equal digests."""
    text = json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode("utf-8")).hexdigest()
