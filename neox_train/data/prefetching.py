"""Work done ahead in a thread of its own."""

from __future__ import annotations

import queue
import sys
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")
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


def map_ahead(
    function: Callable[[T], R], items: Iterable[T], *, workers: int = 2
) -> Generator[tuple[T, R], None, None]:
    """Yield every item with its result, in order; up to ``workers`` results are made at once, and one waits.

    What ``function`` raises is raised at its item's place. Closing this iterator waits for the work in hand, drops the
    rest, and closes ``items``.
    """
    iterator = iter(items)
    pending: deque[tuple[T, Future[R]]] = deque()
    with ThreadPoolExecutor(workers, thread_name_prefix="map_ahead") as pool:
        try:
            for item in iterator:
                pending.append((item, pool.submit(function, item)))
                if len(pending) > workers:
                    first, result = pending.popleft()
                    yield first, result.result()
            while pending:
                first, result = pending.popleft()
                yield first, result.result()
        finally:
            for _, result in pending:
                result.cancel()
            if (close := getattr(iterator, "close", None)) is not None:
                close()


@contextmanager
def hand_over_quickly(seconds: float = 1e-4) -> Generator[None, None, None]:
    """Within the block a thread that wants the interpreter waits ``seconds`` at most.

    With the default of 5 ms, threads that hold it for moments only (they encode, hash, write) wait longer for it than
    they work while another thread parses without a pause.
    """
    before = sys.getswitchinterval()
    sys.setswitchinterval(seconds)
    try:
        yield
    finally:
        sys.setswitchinterval(before)
