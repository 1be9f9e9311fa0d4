from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import typer
from typer.testing import CliRunner, Result

from neox_train.commands.checkpoint import register
from tests.checkpoint.small_checkpoint import list_tree, write_checkpoint


def run(*arguments: str) -> Result:
    app = typer.Typer()
    register(app)
    return CliRunner().invoke(app, ["checkpoint", *arguments])


def test_verify_names_every_damaged_folder_and_where_a_resume_starts(tmp_path: Path) -> None:
    for step in (10, 20, 30):
        write_checkpoint(tmp_path, step)
    (tmp_path / "step_00000030" / "rank_00000.safetensors").unlink()
    (tmp_path / "latest").write_text("step_00000040")
    before = list_tree(tmp_path)
    result = run("verify", str(tmp_path))
    assert result.exit_code == 1
    assert "rank_00000.safetensors is missing" in result.output
    assert "`latest` names it" in result.output
    assert result.output.count("complete") == 2
    assert "A resume starts from step_00000020." in result.output
    assert list_tree(tmp_path) == before


def test_verify_of_whole_checkpoints_succeeds_for_a_run_a_root_and_a_step(tmp_path: Path) -> None:
    folder = write_checkpoint(tmp_path / "checkpoints", 10)
    for place in (tmp_path, tmp_path / "checkpoints", folder):
        assert run("verify", str(place)).exit_code == 0


def test_list_shows_ranks_final_and_latest(tmp_path: Path) -> None:
    write_checkpoint(tmp_path, 10, ranks=3)
    write_checkpoint(tmp_path, 20, final=True)
    lines = run("list", str(tmp_path)).output.splitlines()
    assert lines[1].split()[0] == "step_00000020"
    assert "final latest" in lines[1]
    assert lines[2].split()[2] == "3"


def test_a_place_without_checkpoints_is_one_sentence(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "neox_train.cli", "checkpoint", "verify", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 2
    assert done.stderr.startswith(f"error: {tmp_path} holds no checkpoint")
    assert "Traceback" not in done.stderr


def test_what_login_nodes_import_is_free_of_torch() -> None:
    rooms = ["choice", "fragments", "folders", "leftovers", "manifest", "resume", "retention", "space", "table"]
    imports = "; ".join(f"import neox_train.checkpoint.{name}" for name in rooms)
    code = f"{imports}; import neox_train.commands.checkpoint, sys; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], timeout=120).returncode == 0
