"""One lock a run and a dataset, so that two controllers never work on the same folder.

The kernel's lock (flock) is used where the file system has one: it is released when its holder dies, by whatever
signal. Elsewhere a lease file with host, process and heartbeat takes its place (neox_train.lease).
"""

from __future__ import annotations

import errno
import fcntl
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from neox_train import lease
from neox_train.errors import LockHeldError
from neox_train.files import make_folder, storage_errors
from neox_train.holder import Holder, holder_file, read_holder

_NO_FLOCK_ERRNOS = {errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOLCK, errno.EINVAL}
_RETRY_SECONDS = 0.2


@contextmanager
def hold_lock(
    path: Path,
    *,
    note: str = "",
    wait_seconds: float = 0.0,
    shared: bool = False,
    tell: Callable[[str], None] | None = None,
) -> Iterator[None]:
    """Hold the lock ``path`` for the block; ``note`` tells others what the holder does.

    ``shared`` holders stand beside each other and keep an exclusive one out. Raises LockHeldError, naming the
    holder, when the lock is not free within ``wait_seconds``; ``tell`` is told once for whom it waits.
    """
    path = Path(path)
    make_folder(path.parent)
    deadline = time.monotonic() + wait_seconds
    with storage_errors(path):
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        while (outcome := _try_flock(descriptor, shared)) is False:
            if time.monotonic() >= deadline:
                raise LockHeldError(_held_sentence(path))
            if tell:
                tell(f"{path}: waiting for {_name_holder(path)} to end")
                tell = None
            time.sleep(_RETRY_SECONDS)
        if outcome is None:
            with lease.hold_lease(path, note=note, deadline=deadline, shared=shared, tell=tell):
                yield
        elif shared:
            yield
        else:
            Holder.this_process(note).write(path)
            try:
                yield
            finally:
                holder_file(path).unlink(missing_ok=True)
    finally:
        os.close(descriptor)


def is_held(path: Path) -> bool:
    """Whether a live process holds the lock exclusively; nothing is created and nobody is kept out for longer than
    the look takes.
    """
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        outcome = _try_flock(descriptor, shared=True)
    finally:
        os.close(descriptor)
    return lease.is_leased(path) if outcome is None else not outcome


def _try_flock(descriptor: int, shared: bool) -> bool | None:
    """True: taken; False: another holds it; None: this file system has no flock."""
    try:
        fcntl.flock(descriptor, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in (errno.EWOULDBLOCK, errno.EACCES):
            return False
        if error.errno in _NO_FLOCK_ERRNOS:
            return None
        raise
    return True


def _held_sentence(path: Path) -> str:
    who = _name_holder(path)
    return f"{path}: {who} works on this folder; wait for it to end (or end it), then repeat the same command"


def _name_holder(path: Path) -> str:
    return str(read_holder(path) or "another process")
