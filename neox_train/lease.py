"""A lock for file systems without flock: a file that its holder touches, and that counts as left behind otherwise.

Ages are differences between times of the same file system, so that clocks of two hosts need not agree.
"""

from __future__ import annotations

import json
import os
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

from neox_train.errors import LockHeldError
from neox_train.files import storage_errors
from neox_train.holder import Holder, parse_holder

HEARTBEAT_SECONDS = 10.0
LEASE_SECONDS = 60.0
_RETRY_SECONDS = 0.2


@contextmanager
def hold_lease(
    path: Path, *, note: str, deadline: float, shared: bool, tell: Callable[[str], None] | None = None
) -> Iterator[None]:
    """Hold a lease beside ``path``; raises LockHeldError when none is to be had before ``deadline`` (monotonic).

    ``tell`` is told once for whom it waits. A shared holder has a file of its own, an exclusive one a file of a fixed
    name: it waits for the shared ones.
    """
    file = _shared_file(path) if shared else _exclusive_file(path)
    while (other := _take(path, file, note, shared)) is not None:
        if time.monotonic() >= deadline:
            raise LockHeldError(f"{path}: {other} works on this folder; wait for it to end, then repeat the command")
        if tell:
            tell(f"{path}: waiting for {other} to end")
            tell = None
        time.sleep(_RETRY_SECONDS)
    stop = threading.Event()
    beat = threading.Thread(target=_keep_alive, args=(file, stop), name=f"lease {path.name}", daemon=True)
    beat.start()
    try:
        yield
    finally:
        stop.set()
        beat.join()
        file.unlink(missing_ok=True)


def is_leased(path: Path) -> bool:
    """Whether a live exclusive lease stands beside ``path``."""
    return _live_holder(_exclusive_file(path)) is not None


def _exclusive_file(path: Path) -> Path:
    return path.with_name(f"{path.name}.lease")


def _shared_file(path: Path) -> Path:
    return path.with_name(f"{path.name}.lease-{uuid.uuid4().hex}")


def _take(path: Path, file: Path, note: str, shared: bool) -> Holder | None:
    """Create ``file`` unless a live lease stands against it; that lease's holder, or None when taken."""
    mine = Holder.this_process(note)
    while True:
        try:
            with storage_errors(file):
                descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
            break
        except FileExistsError:
            if other := _live_holder(file):
                return other
    with os.fdopen(descriptor, "w", encoding="utf-8") as stream:
        json.dump(asdict(mine), stream)
    rivals = [_exclusive_file(path)] if shared else sorted(path.parent.glob(f"{path.name}.lease-*"))
    for rival in rivals:
        if rival != file and (other := _live_holder(rival)):
            file.unlink(missing_ok=True)
            return other
    return None


def _live_holder(file: Path) -> Holder | None:
    """The holder of a lease that still counts; a lease left behind is moved away and gives None.

    The move has one winner: rename of a name that is gone fails. A lease that was renewed or retaken between look and
    move would be moved too, so the age is looked at again under the new name and a live one is put back.
    """
    unknown = Holder("?", 0, time.time(), "starting")
    if not _is_left_behind(file):
        return (parse_holder(file) or unknown) if file.exists() else None
    grave = file.with_name(f".{file.name}.left-{uuid.uuid4().hex}")
    try:
        os.rename(file, grave)
    except FileNotFoundError:
        return None
    if _is_left_behind(grave):
        grave.unlink(missing_ok=True)
        return None
    os.rename(grave, file)
    return parse_holder(file) or unknown


def _is_left_behind(file: Path) -> bool:
    holder = parse_holder(file)
    if holder and holder.is_dead():
        return True
    try:
        touched = file.stat().st_mtime
    except FileNotFoundError:
        return False
    return _now_on(file.parent) - touched > LEASE_SECONDS


def _now_on(folder: Path) -> float:
    """The file system's own time, from a file made for the purpose."""
    probe = folder / f".clock-{uuid.uuid4().hex}"
    probe.touch()
    try:
        return probe.stat().st_mtime
    finally:
        probe.unlink(missing_ok=True)


def _keep_alive(file: Path, stop: threading.Event) -> None:
    while not stop.wait(HEARTBEAT_SECONDS):
        try:
            os.utime(file)
        except OSError:
            # The next beat tries again: five may fail before others take the lease for left behind.
            continue
