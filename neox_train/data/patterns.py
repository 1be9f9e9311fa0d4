"""Expanding the paths and patterns of ``source.files``: as ``glob`` does, but what cannot be read is an error."""

from __future__ import annotations

import errno
import fnmatch
import glob
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_ANYWHERE = "**"


def expand_pattern(pattern: str) -> list[Path]:
    """What ``pattern`` names, sorted: ``*``, ``?`` and ``[...]`` inside a name, ``**`` for folders, linked ones too.

    A name that is there with its brackets is taken as it is. Hidden names need a pattern that begins with a point.
    Raises PermissionError for a folder that may not be read, where ``glob`` passes over the files below it.
    """
    root = os.sep if pattern.startswith(os.sep) else ""
    parts = [part for part in pattern.split(os.sep) if part]
    found = {Path(place) for place in _expand(root, parts)}
    return sorted(path for path in found if not pattern.endswith(os.sep) or path.is_dir())


def find_barrier(path: Path) -> Path:
    """The outermost folder on the way to ``path`` that may not be read or entered, or ``path`` where there is none."""
    for folder in reversed([path, *path.parents]):
        if folder.is_dir() and not os.access(folder, os.R_OK | os.X_OK):
            return folder
    return path


def _expand(place: str, parts: list[str]) -> Iterator[str]:
    """Paths below ``place`` ("" is the working folder) that match ``parts``."""
    if not parts:
        yield place
        return
    part, rest = parts[0], parts[1:]
    if part == _ANYWHERE:
        if place:
            yield from _expand(place, rest)
        elif rest:
            yield from _expand("", rest)
        for below in _walk(place, set()):
            yield from _expand(below, rest)
    elif _is_there(os.path.join(place, part)) and ("[" in part or not glob.has_magic(part)):
        yield from _expand(os.path.join(place, part), rest)
    elif glob.has_magic(part):
        for name in fnmatch.filter(_list_names(place), part):
            if part.startswith(".") or not name.startswith("."):
                yield from _expand(os.path.join(place, name), rest)


def _list_names(folder: str) -> list[str]:
    """Names in a folder, sorted; none where there is no such folder."""
    with _none_there():
        return sorted(os.listdir(folder or os.curdir))
    return []


def _walk(place: str, seen: set[tuple[int, int]]) -> Iterator[str]:
    """Everything below a folder, each folder once, hidden names left out."""
    with _none_there():
        status = os.stat(place or os.curdir)
        identity = (status.st_dev, status.st_ino)
        if not stat.S_ISDIR(status.st_mode) or identity in seen:
            return
        seen.add(identity)
        for name in _list_names(place):
            if not name.startswith("."):
                below = os.path.join(place, name)
                yield below
                yield from _walk(below, seen)


def _is_there(path: str) -> bool:
    """Whether a path is there, a link to nothing too; raises PermissionError where that may not be seen."""
    with _none_there():
        os.lstat(path)
        return True
    return False


@contextmanager
def _none_there() -> Iterator[None]:
    """Pass over the errors that say that nothing is there: no name, no folder, a link that leads to itself."""
    try:
        yield
    except OSError as error:
        if error.errno not in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP):
            raise
