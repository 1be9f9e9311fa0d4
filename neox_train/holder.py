"""Who holds a lock: host, process, start and purpose, in a file beside the lock."""

from __future__ import annotations

import json
import os
import socket
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from neox_train.files import write_json


@dataclass(frozen=True)
class Holder:
    """The process that holds a lock; ``started`` is seconds since the epoch."""

    host: str
    pid: int
    started: float
    note: str

    @classmethod
    def this_process(cls, note: str) -> Holder:
        """The record of the calling process."""
        return cls(socket.gethostname(), os.getpid(), time.time(), note)

    def __str__(self) -> str:
        since = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(self.started))
        purpose = f" ({self.note})" if self.note else ""
        return f"process {self.pid} on {self.host}{purpose}, since {since},"

    def write(self, lock: Path) -> None:
        """Write the record beside ``lock``."""
        write_json(holder_file(lock), asdict(self))

    def is_on_this_host(self) -> bool:
        """Whether the process can be asked from here."""
        return self.host == socket.gethostname()

    def is_dead(self) -> bool:
        """Whether the process is known to be gone; False for a process on another host, which cannot be asked."""
        if not self.is_on_this_host():
            return False
        try:
            os.kill(self.pid, 0)
        except ProcessLookupError:
            return True
        except PermissionError:
            return False
        return False


def holder_file(lock: Path) -> Path:
    """The side file of a lock."""
    return lock.with_name(f"{lock.name}.holder")


def read_holder(lock: Path) -> Holder | None:
    """The holder written beside ``lock``; None where there is none or it cannot be read."""
    return parse_holder(holder_file(lock))


def parse_holder(file: Path) -> Holder | None:
    """Read one record; None where the file is absent, torn or of another form."""
    try:
        return Holder(**json.loads(file.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        return None
