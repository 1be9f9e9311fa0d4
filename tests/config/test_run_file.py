import subprocess
import sys
from pathlib import Path

import pytest

from neox_train.config.layout import RunFolder
from neox_train.config.load import load_config
from neox_train.config.run_file import restore_run_config, write_run_config
from neox_train.errors import LockHeldError
from neox_train.locks import hold_lock
from tests.config.files import load_tiny

HOLD = """
import sys
from pathlib import Path
from neox_train.locks import hold_lock
with hold_lock(Path(sys.argv[1]), note="neox-train submit serial"):
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def run(tmp_path: Path) -> RunFolder:
    folder = RunFolder(tmp_path / "serial")
    write_run_config(folder, load_tiny())
    return folder


def test_a_live_training_s_configuration_does_not_change_under_it(run: RunFolder) -> None:
    before = run.config_file.stat().st_mtime_ns
    command = [sys.executable, "-c", HOLD, str(run.lock)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as training:
        assert training.stdout is not None and training.stdin is not None
        assert training.stdout.readline() == "held\n"
        write_run_config(run, load_tiny())
        with pytest.raises(LockHeldError, match=r"under a run at work: .*neox-train submit serial.* repeat"):
            write_run_config(run, load_tiny(weight_decay=0.3))
        assert run.config_file.stat().st_mtime_ns == before
        training.stdin.close()
    write_run_config(run, load_tiny(weight_decay=0.3))
    assert load_config([run.config_file]).weight_decay == 0.3


def test_another_s_configuration_is_written_over_by_the_holder_of_the_lock(run: RunFolder) -> None:
    write_run_config(run, load_tiny(weight_decay=0.3))
    with hold_lock(run.lock):
        restore_run_config(run, load_tiny())
    assert load_config([run.config_file]).weight_decay == load_tiny().weight_decay


def test_the_same_configuration_is_not_written_again(run: RunFolder) -> None:
    before = run.config_file.stat().st_mtime_ns
    write_run_config(run, load_config([run.config_file]))
    assert run.config_file.stat().st_mtime_ns == before
