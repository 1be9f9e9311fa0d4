"""The run lock: exclusive, named, released by death, and the lease that replaces it without flock."""

import errno
import math
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from neox_train import lease, locks
from neox_train.errors import LockHeldError
from neox_train.holder import Holder, read_holder

HOLD = """
import sys, time
from pathlib import Path
from neox_train.locks import hold_lock
if sys.argv[2] == "lease":
    import errno, fcntl
    def refuse(descriptor, operation):
        raise OSError(errno.ENOTSUP, "no flock here")
    fcntl.flock = refuse
with hold_lock(Path(sys.argv[1]), note="training serial"):
    print("held", flush=True)
    time.sleep(60)
"""


def start_holder(lock: Path, kind: str) -> subprocess.Popen[str]:
    process = subprocess.Popen([sys.executable, "-c", HOLD, str(lock), kind], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    return process


@pytest.fixture
def no_flock(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(descriptor: int, operation: int) -> None:
        raise OSError(errno.ENOTSUP, "no flock here")

    monkeypatch.setattr(locks.fcntl, "flock", refuse)


@pytest.mark.parametrize("kind", ["flock", "lease"])
def test_second_holder_is_refused_by_name_and_death_frees_the_lock(
    tmp_path: Path, kind: str, request: pytest.FixtureRequest
) -> None:
    if kind == "lease":
        request.getfixturevalue("no_flock")
    lock = tmp_path / "run" / ".lock"
    holder = start_holder(lock, kind)
    try:
        with pytest.raises(LockHeldError, match=rf"process {holder.pid} on .*training serial"), locks.hold_lock(lock):
            pass
        holder.send_signal(signal.SIGKILL)
        holder.wait(timeout=10)
        with locks.hold_lock(lock, note="second"):
            assert lock.exists()
    finally:
        holder.kill()
        holder.wait(timeout=10)


def test_holder_is_written_for_the_block_only(tmp_path: Path) -> None:
    lock = tmp_path / ".lock"
    with locks.hold_lock(lock, note="tokenizing"):
        holder = read_holder(lock)
        assert holder is not None
        assert (holder.pid, holder.note) == (os.getpid(), "tokenizing")
    assert read_holder(lock) is None


@pytest.mark.parametrize("kind", ["flock", "lease"])
def test_shared_holders_stand_together_and_keep_an_exclusive_one_out(
    tmp_path: Path, kind: str, request: pytest.FixtureRequest
) -> None:
    if kind == "lease":
        request.getfixturevalue("no_flock")
    lock = tmp_path / "ranks.lock"
    shared = locks.hold_lock(lock, shared=True), locks.hold_lock(lock, shared=True)
    with shared[0], shared[1], pytest.raises(LockHeldError), locks.hold_lock(lock):
        pass
    with locks.hold_lock(lock):
        pass


@pytest.mark.usefixtures("no_flock")
def test_lease_of_another_host_counts_until_its_heartbeat_stops(tmp_path: Path) -> None:
    lock = tmp_path / ".lock"
    file = lock.with_name(".lock.lease")
    Holder("far-away-host", 4242, time.time(), "training").write(lock)
    read = lock.with_name(".lock.holder")
    os.rename(read, file)
    with pytest.raises(LockHeldError, match="process 4242 on far-away-host"), locks.hold_lock(lock):
        pass
    old = time.time() - lease.LEASE_SECONDS - 1
    os.utime(file, (old, old))
    with locks.hold_lock(lock):
        assert file.stat().st_mtime > old + 30
    assert not file.exists()


@pytest.mark.parametrize("kind", ["flock", "lease"])
def test_wait_names_the_holder_once_and_takes_the_lock_when_it_comes_free(
    tmp_path: Path, kind: str, request: pytest.FixtureRequest
) -> None:
    if kind == "lease":
        request.getfixturevalue("no_flock")
    lock = tmp_path / ".lock"
    holder = start_holder(lock, kind)
    told: list[str] = []

    def end_holder(sentence: str) -> None:
        told.append(sentence)
        holder.send_signal(signal.SIGKILL)
        holder.wait(timeout=10)

    try:
        with locks.hold_lock(lock, wait_seconds=math.inf, tell=end_holder):
            assert lock.exists()
    finally:
        holder.kill()
        holder.wait(timeout=10)
    (sentence,) = told
    assert f"waiting for process {holder.pid}" in sentence
