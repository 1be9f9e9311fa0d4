import os
import subprocess
import sys
from pathlib import Path

import pytest

from neox_train.cluster.failures import known_ids, list_failures
from neox_train.commands.stage import stage
from neox_train.errors import DataError

KILLED = """
import os, signal, sys
from pathlib import Path
from neox_train.commands.stage import stage
with stage("convert", Path(sys.argv[1]), subject="run a", command="neox-train convert a"):
    os.kill(os.getpid(), signal.SIGKILL)
"""


def fail(folder: Path, sentence: str = "no disk") -> None:
    with pytest.raises(DataError), stage("train", folder, subject=f"run {folder.name}", command="again"):
        raise DataError(sentence)


def test_the_same_failure_once_more_is_listed_and_an_old_one_is_not(tmp_path: Path) -> None:
    old, now, absent = (tmp_path / name for name in ("old", "now", "absent"))
    fail(old)
    fail(now)
    known = known_ids([old, now, absent])
    fail(now)
    # A file server whose clock is an hour behind this machine's.
    os.utime(now / "failure.json", (1000.0, 1000.0))
    assert list_failures([old, now, absent], known) == ["run now, train: no disk (again: again)"]


def test_a_killed_stage_is_listed_with_its_log(tmp_path: Path) -> None:
    folder = tmp_path / "a"
    log = folder / "logs" / "convert.log"
    log.parent.mkdir(parents=True)
    log.write_text("")
    known = known_ids([folder])
    assert subprocess.run([sys.executable, "-c", KILLED, str(folder)], check=False).returncode == -9
    (line,) = list_failures([folder], known)
    assert line.startswith("run a, convert: no word of how it ended")
    assert str(log) in line and "again: neox-train convert a" in line
    assert list_failures([folder], known_ids([folder])) == []


def test_a_stage_at_work_is_no_failure(tmp_path: Path) -> None:
    with stage("train", tmp_path, subject="run a", command="again"):
        assert list_failures([tmp_path], ()) == []
    assert list(tmp_path.iterdir()) == []


def test_a_torn_record_is_passed_over(tmp_path: Path) -> None:
    (tmp_path / "failure.json").write_text('{"sta')
    assert list_failures([tmp_path], known_ids([tmp_path])) == []
