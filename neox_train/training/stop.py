"""The stop flag: signal handlers set it, every rank reads it at a step boundary."""

from __future__ import annotations

import threading

_requested = threading.Event()
_reasons: list[str] = []


def request_stop(reason: str = "a stop was asked for") -> None:
    """Ask the training loop to save and return after the step it is in. Safe in a signal handler, and to repeat."""
    if not _requested.is_set():
        _reasons.append(reason)
        _requested.set()


def stop_requested() -> bool:
    """Whether this process was asked to stop; the ranks agree by reducing it."""
    return _requested.is_set()


def stop_reason() -> str:
    """Why this process was asked to stop; empty when only another rank was."""
    return _reasons[0] if _reasons else ""


def clear_stop() -> None:
    """Forget a request, for a process that trains more than once."""
    _requested.clear()
    _reasons.clear()
