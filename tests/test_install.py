"""The Makefile's install, killed mid-way: the next one is whole, not stuck on what the first left."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

pytestmark = pytest.mark.timeout(120)


def run_until(folder: Path, condition: Callable[[], bool]) -> str:
    """Start the install, kill all its processes as soon as ``condition`` holds; what it printed."""
    process = subprocess.Popen(
        ["make", f"PYTHON={sys.executable}", ".venv/.core"],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    while not condition():
        assert process.poll() is None, process.communicate()[0]
        time.sleep(0.02)
    os.killpg(process.pid, signal.SIGKILL)
    return process.communicate()[0]


def has_pip(venv: Path) -> bool:
    command = [venv / "bin" / "python", "-c", "import pip"]
    return command[0].exists() and subprocess.run(command, capture_output=True).returncode == 0


def test_an_install_killed_early_begins_again(tmp_path: Path, repository: Path) -> None:
    for name in ("Makefile", "install.sh", "pyproject.toml", "constraints"):
        (tmp_path / name).symlink_to(repository / name)
    venv = tmp_path / ".venv"
    assert "begins again" not in run_until(tmp_path, (venv / "bin" / "python").exists)
    assert not has_pip(venv)
    (venv / "lib" / "half.py").write_text("")
    assert "begins again" in run_until(tmp_path, lambda: has_pip(venv))
    assert not (venv / "lib" / "half.py").exists()
    assert not (venv / ".core").exists()
