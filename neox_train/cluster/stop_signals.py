"""Signals to the follower: remembered, so that the loop acts on them between two looks at the job."""

from __future__ import annotations

import contextlib
import os
import select
import signal
from types import FrameType, TracebackType
from typing import Any

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class StopSignals:
    """For the block, SIGINT, SIGTERM and SIGHUP are counted and end a ``pause``, and do nothing else."""

    def __init__(self) -> None:
        self.count = 0
        self.name = ""
        self.number = 0
        self._before: dict[signal.Signals, Any] = {}
        self._pipe: tuple[int, int] = (-1, -1)

    def __enter__(self) -> StopSignals:
        self._pipe = os.pipe()
        os.set_blocking(self._pipe[1], False)
        self._before = {name: signal.signal(name, self._remember) for name in _SIGNALS}
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for name, handler in self._before.items():
            signal.signal(name, handler)
        for end in self._pipe:
            os.close(end)

    def pause(self, seconds: float) -> None:
        """Sleep, but not through a signal."""
        if select.select([self._pipe[0]], [], [], seconds)[0]:
            os.read(self._pipe[0], 4096)

    def _remember(self, signum: int, frame: FrameType | None) -> None:
        self.count += 1
        self.name, self.number = signal.Signals(signum).name, signum
        with contextlib.suppress(BlockingIOError):
            os.write(self._pipe[1], b"!")
