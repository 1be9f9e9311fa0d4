"""Signals to a rank: remembered, and passed to the training loop, which saves and stops at a step boundary."""

from __future__ import annotations

import signal
from types import FrameType

from neox_train.training.stop import request_stop

_seen: list[str] = []


def install_handlers() -> None:
    """Take USR2 (the wall comes, or a preemption) and SIGTERM from submitit's handlers.

    submitit's own would requeue from rank 0 while the others train on. A hang-up of the terminal and a keyboard's
    interrupt are the launcher's business, which asks the ranks by SIGTERM.
    """
    _seen.clear()
    signal.signal(signal.SIGUSR2, _remember)
    signal.signal(signal.SIGTERM, _remember)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def signal_seen() -> str:
    """Name of the first signal that asked this process to stop; empty when only a peer was asked."""
    return _seen[0] if _seen else ""


def _remember(signum: int, frame: FrameType | None) -> None:
    name = signal.Signals(signum).name
    _seen.append(name)
    request_stop(f"asked by {name}")
