"""Stand-ins for Slurm's commands, first on PATH: they print what real sites print."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest


def write_command(folder: Path, name: str, body: str, monkeypatch: pytest.MonkeyPatch | None = None) -> None:
    """A shell script ``name`` in ``folder``, which goes first on PATH."""
    file = folder / name
    file.write_text(f"#!/bin/sh\n{body}\n")
    file.chmod(file.stat().st_mode | stat.S_IXUSR)
    if monkeypatch and str(folder) not in os.environ["PATH"].split(os.pathsep):
        monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
