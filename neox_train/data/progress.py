"""Progress over bytes of text: a bar on a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

_SECONDS_BETWEEN_LINES = 30.0


@contextmanager
def show_progress(title: str, total_bytes: int) -> Iterator[Callable[[int], None]]:
    """Yield ``advance(num_bytes)``; what is shown goes to standard error."""
    if sys.stderr.isatty():
        with _show_bar(title, total_bytes) as advance:
            yield advance
    else:
        yield _LinePrinter(title, total_bytes).advance


@contextmanager
def _show_bar(title: str, total_bytes: int) -> Iterator[Callable[[int], None]]:
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
        TransferSpeedColumn,
    )

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task(title, total=total_bytes)
        yield lambda num_bytes: bar.advance(task, num_bytes)
        bar.update(task, completed=total_bytes)


class _LinePrinter:
    """A line now and then, so that a log of hours of work stays short."""

    def __init__(self, title: str, total_bytes: int) -> None:
        self._title = title
        self._total = total_bytes
        self._done = 0
        self._last = time.monotonic()

    def advance(self, num_bytes: int) -> None:
        self._done += num_bytes
        now = time.monotonic()
        if now - self._last >= _SECONDS_BETWEEN_LINES:
            self._last = now
            print(f"{self._title}: {self._done / 1e6:.0f} of {self._total / 1e6:.0f} MB", file=sys.stderr, flush=True)
