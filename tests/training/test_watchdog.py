import os
import subprocess
import sys
import time

import pytest

from neox_train.config.variables import LAUNCHER_PID
from neox_train.training.watchdog import ORPHANED_EXIT_CODE, start_ticks, watch_launcher

RANK = "from neox_train.training.watchdog import watch_launcher; import time; watch_launcher(); time.sleep(60)"


def test_a_rank_ends_when_its_launcher_is_killed() -> None:
    launcher = subprocess.Popen(["sleep", "60"])
    rank = subprocess.Popen(
        [sys.executable, "-c", RANK], env={**os.environ, LAUNCHER_PID: str(launcher.pid)}, stderr=subprocess.PIPE
    )
    try:
        time.sleep(2.0)
        assert rank.poll() is None
        launcher.kill()
        # Not reaped yet: a launcher that is only a zombie is gone as well.
        _, message = rank.communicate(timeout=15)
    finally:
        launcher.kill()
        launcher.wait()
        rank.kill()
        rank.wait()
    assert rank.returncode == ORPHANED_EXIT_CODE
    assert f"process {launcher.pid}" in message.decode()


def test_start_ticks_tell_processes_apart() -> None:
    assert start_ticks(os.getpid()) is not None
    ended = subprocess.Popen(["true"])
    ended.wait()
    assert start_ticks(ended.pid) is None


@pytest.mark.parametrize("value", ["", "none"])
def test_without_a_launcher_nothing_watches(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(LAUNCHER_PID, value)
    assert watch_launcher() is None
