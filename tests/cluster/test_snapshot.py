import os
import subprocess
import sys
from pathlib import Path

from neox_train.cluster.environment import export_lines
from neox_train.cluster.node_facts import digest_code
from neox_train.cluster.snapshot import code_variables, note_snapshot, take_snapshot
from neox_train.config.layout import RunFolder
from neox_train.files import read_json, write_json


def test_python_imports_the_snapshot_from_whichever_folder_it_starts_in(tmp_path: Path) -> None:
    run = RunFolder(tmp_path / "run")
    snapshot = take_snapshot(run)
    assert take_snapshot(run) == snapshot
    assert list((run.path / "code").iterdir()) == [snapshot]
    # The checkout that the job starts in was edited since.
    checkout = tmp_path / "checkout"
    (checkout / "neox_train").mkdir(parents=True)
    (checkout / "neox_train" / "__init__.py").write_text("raise SystemExit('the edited code ran')\n")
    script = "\n".join([*export_lines(code_variables(snapshot)), f"exec {sys.executable} -m neox_train.cli --version"])
    environment = {**os.environ, "PYTHONPATH": str(checkout)}
    result = subprocess.run(["bash", "-c", script], cwd=checkout, env=environment, capture_output=True, text=True)
    assert result.returncode == 0, result.stdout + result.stderr
    place = script.replace("-m neox_train.cli --version", "-c 'import neox_train; print(neox_train.__file__)'")
    result = subprocess.run(["bash", "-c", place], cwd=checkout, env=environment, capture_output=True, text=True)
    assert result.stdout.strip() == str(snapshot / "neox_train" / "__init__.py")


def test_provenance_names_it(tmp_path: Path) -> None:
    run = RunFolder(tmp_path / "run")
    write_json(run.provenance, {"git": None})
    snapshot = take_snapshot(run)
    note_snapshot(run, snapshot)
    code = read_json(run.provenance)["code"]
    assert run.path / code["folder"] == snapshot
    assert code["sha256"] == digest_code()
