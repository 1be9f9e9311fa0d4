"""What the follower tells: a live line on a terminal, plain lines at intervals elsewhere."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Iterator
from typing import TextIO

_PLAIN_SECONDS = 10.0


class Reporter:
    """Writes to one stream; a reader that has gone away never stops the training."""

    def __init__(self, run: str, stream: TextIO | None = None, *, plain_seconds: float = _PLAIN_SECONDS) -> None:
        self.run = run
        self.stream = stream or sys.stderr
        self.live = self.stream.isatty()
        self.plain_seconds = plain_seconds
        self._shown = ""
        self._shown_at = 0.0
        self._live_text = False

    def say(self, text: str) -> None:
        """One line that stays."""
        self._clear_live()
        self._write(f"{self.run}: {text}\n")

    def show(self, text: str, *, at_once: bool = False) -> None:
        """Where things are: replaces the last such line on a terminal, at most every few seconds elsewhere.

        ``at_once`` is for a change that a person waits for.
        """
        if text == self._shown:
            return
        if self.live:
            self._clear_live()
            self._write(f"{self.run}: {text}")
            self._live_text = True
        elif not at_once and time.monotonic() - self._shown_at < self.plain_seconds:
            return
        else:
            self._write(f"{self.run}: {text}\n")
        self._shown, self._shown_at = text, time.monotonic()

    def quote(self, title: str, lines: list[str]) -> None:
        """A block of another program's lines."""
        self.say(title)
        for line in lines:
            self._write(f"    {line}\n")

    @contextlib.contextmanager
    def closing(self) -> Iterator[None]:
        """Leave no half line behind."""
        try:
            yield
        finally:
            self._clear_live()

    def _clear_live(self) -> None:
        if self._live_text:
            self._write("\r\x1b[2K")
            self._live_text = False

    def _write(self, text: str) -> None:
        with contextlib.suppress(OSError, ValueError):
            self.stream.write(text)
            self.stream.flush()
