"""Ends a rank whose launcher is gone, so that no trainer lives on behind a lock that nobody follows."""

from __future__ import annotations

import os
import sys
import threading
from pathlib import Path

from neox_train.config.variables import LAUNCHER_PID

ORPHANED_EXIT_CODE = 75
"""EX_TEMPFAIL: nothing is wrong with the run, the same command continues it."""
_POLL_SECONDS = 1.0


def watch_launcher() -> threading.Thread | None:
    """Start a thread that ends this process at once when the launcher's process is gone.

    The launcher is the process id in NEOX_TRAIN_LAUNCHER_PID, on this machine; None without one, or without /proc.
    """
    text = os.environ.get(LAUNCHER_PID, "")
    if not text.isdigit() or not Path("/proc/self/stat").exists():
        return None
    launcher = int(text)
    thread = threading.Thread(target=_watch, args=(launcher, start_ticks(launcher)), name="launcher-watch", daemon=True)
    thread.start()
    return thread


def start_ticks(process: int) -> str | None:
    """When a process started, in the kernel's clock ticks; None when it is gone or only waits to be reaped."""
    try:
        # The command name, in parentheses, may hold spaces: fields are counted after it.
        fields = Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()
    except (OSError, IndexError):
        return None
    state, started = fields[0], fields[19]
    return None if state in ("Z", "X") else started


def _watch(launcher: int, started: str | None) -> None:
    never = threading.Event()
    while started is not None and start_ticks(launcher) == started:
        never.wait(_POLL_SECONDS)
    print(f"the launcher (process {launcher}) is gone: this rank ends", file=sys.stderr, flush=True)
    # Not sys.exit: the main thread may hang in a collective for minutes.
    os._exit(ORPHANED_EXIT_CODE)
