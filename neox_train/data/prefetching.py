"""Work done ahead in a thread of its own."""

from __future__ import annotations

import queue
import sys
import threading
from collections.abc import Generator, Iterable
from typing import TypeVar

T = TypeVar("T")
_SECONDS_BETWEEN_LOOKS = 0.1


def prefetch(items: Iterable[T], depth: int = 2) -> Generator[T, None, None]:
    """Yield ``items``, up to ``depth`` of them made ahead by a thread; none is kept once it was yielded.

    What the thread meets is raised here, at the place of the item it stands for. Closing this iterator ends the
    thread and closes ``items``.
    """
    ready: queue.Queue[tuple[T] | BaseException | None] = queue.Queue(maxsize=depth)
    stopped = threading.Event()

    def put(entry: tuple[T] | BaseException | None) -> bool:
        while not stopped.is_set():
            try:
                ready.put(entry, timeout=_SECONDS_BETWEEN_LOOKS)
                return True
            except queue.Full:
                continue
        return False

    def work() -> None:
        iterator = iter(items)
        try:
            for item in iterator:
                if not put((item,)):
                    return
            put(None)
        except BaseException as error:
            put(error)
        finally:
            if (close := getattr(iterator, "close", None)) is not None:
                close()

    # A daemon: a process that ends in the middle of an epoch must not wait for it.
    thread = threading.Thread(target=work, name="prefetch", daemon=True)
    thread.start()
    try:
        while (entry := ready.get()) is not None:
            if isinstance(entry, BaseException):
                raise entry
            yield entry[0]
    finally:
        stopped.set()
        # At the interpreter's end daemon threads stand still: waiting for one would never end.
        if not sys.is_finalizing():
            thread.join()
