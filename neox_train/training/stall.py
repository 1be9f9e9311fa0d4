"""Finds a rank that makes no progress: every rank watches its own steps, and ends when they stop coming.

A peer that hangs leaves the others waiting in a collective without an error, and the job would burn its hours until the
wall. The watch is a thread, because the main one is stuck.
"""

from __future__ import annotations

import faulthandler
import os
import re
import sys
import threading
import time
import traceback
from collections.abc import Callable
from pathlib import Path

from neox_train.training.flight import StepNote, dump_flight

STALL_VARIABLE = "NEOX_TRAIN_STALL_SECONDS"
"""Seconds without progress after which a rank ends; 0 switches the watch off."""
STALL_SECONDS = 1800.0
"""Longer than a first step that compiles, and than the slowest save."""
STALLED_EXIT_CODE = 76

_COLLECTIVE_FOLDERS = (os.path.join("torch", "distributed"), os.path.join("deepspeed", "comm"))
_WAITING_LINE = re.compile(r"\w\.(?:wait|item|tolist|cpu|synchronize)\(")
_report: Callable[[str], None] | None = None


def report_stalls_to(report: Callable[[str], None]) -> None:
    """Let the launcher's worker know what stalled, in a sentence, before the process ends."""
    global _report
    _report = report


class StallWatch:
    """Ends this process when ``beat`` has not been called for ``limit_seconds``."""

    def __init__(self, rank: int, *, limit_seconds: float | None = None) -> None:
        self.rank = rank
        self.limit_seconds = _limit_from_environment() if limit_seconds is None else limit_seconds
        self._main_thread = threading.get_ident()
        self._step = 0
        self._note = StepNote(rank)
        self._beat_at = time.monotonic()
        self._ended = threading.Event()

    def __enter__(self) -> StallWatch:
        self._beat_at = time.monotonic()
        if self.limit_seconds > 0:
            threading.Thread(target=self._watch, name="stall-watch", daemon=True).start()
        return self

    def __exit__(self, *error: object) -> None:
        self._ended.set()

    def beat(self, step: int) -> None:
        """Take note that ``step`` is done, or that a save or validation after it is."""
        self._step = step
        self._note.write(step)
        self._beat_at = time.monotonic()

    def _watch(self) -> None:
        pause_seconds = min(5.0, self.limit_seconds / 4)
        while not self._ended.wait(pause_seconds):
            seconds = time.monotonic() - self._beat_at
            if seconds > self.limit_seconds:
                self._tell(seconds)
                # The others see the same within a pause: when this one is gone first, they only lose a peer.
                if not self._ended.wait(2 * pause_seconds):
                    # Not sys.exit: the main thread is stuck.
                    os._exit(STALLED_EXIT_CODE)

    def _tell(self, seconds: float) -> None:
        where = describe_place(self._main_thread)
        sentence = f"rank {self.rank} made no progress for {seconds:.0f} s after step {self._step}; it was {where}"
        if collective := dump_flight(self.rank):
            sentence += f", in {collective}"
        print(f"{sentence}; the stacks of its threads:", file=sys.stderr, flush=True)
        faulthandler.dump_traceback(file=sys.stderr, all_threads=True)
        if _report is not None:
            _report(sentence)


def describe_place(thread: int) -> str:
    """Where a thread is: waiting for other ranks in a collective, or in which function."""
    stacks = {
        other: traceback.extract_stack(frame)
        for other, frame in sys._current_frames().items()
        if other != threading.get_ident()
    }
    if thread not in stacks:
        return "gone"
    own = next((entry for entry in reversed(stacks[thread]) if "neox_train" in entry.filename), stacks[thread][-1])
    # On a GPU the backward pass, and its collectives, run in a thread of their own.
    if any(_is_waiting(stack) for stack in stacks.values()):
        return f"waiting for other ranks ({Path(own.filename).name}:{own.lineno} {own.name})"
    innermost = stacks[thread][-1]
    return f"in {Path(innermost.filename).name}:{innermost.lineno} {innermost.name}"


def _is_waiting(stack: traceback.StackSummary) -> bool:
    """In a collective, or at a line where the results of earlier ones are waited for."""
    in_collective = any(folder in entry.filename for entry in stack for folder in _COLLECTIVE_FOLDERS)
    return in_collective or bool(_WAITING_LINE.search(stack[-1].line or ""))


def _limit_from_environment() -> float:
    text = os.environ.get(STALL_VARIABLE, "")
    try:
        return float(text) if text else STALL_SECONDS
    except ValueError:
        return STALL_SECONDS
