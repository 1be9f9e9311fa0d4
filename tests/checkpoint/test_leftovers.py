from __future__ import annotations

from pathlib import Path

import pytest

from neox_train.checkpoint.leftovers import clear_leftovers
from neox_train.checkpoint.manifest import read_manifest, verify_checkpoint
from tests.checkpoint.small_checkpoint import write_checkpoint


def test_a_save_that_died_is_removed_and_others_stay(tmp_path: Path) -> None:
    kept = write_checkpoint(tmp_path, 10)
    dead = write_checkpoint(tmp_path, 20).rename(tmp_path / ".tmp-step_00000020")
    (dead / "manifest.json").unlink()
    (tmp_path / ".tmp-old-step_00000005").mkdir()
    (tmp_path / ".tmp-of-someone-else").mkdir()
    cleared = clear_leftovers(tmp_path)
    assert {path.name for path in cleared} == {".tmp-step_00000020", ".tmp-old-step_00000005"}
    assert {path.name for path in tmp_path.iterdir()} == {kept.name, "latest", ".tmp-of-someone-else"}


def test_a_save_that_lacked_only_its_name_is_finished(tmp_path: Path) -> None:
    write_checkpoint(tmp_path, 20).rename(tmp_path / ".tmp-step_00000020")
    clear_leftovers(tmp_path)
    assert verify_checkpoint(tmp_path / "step_00000020") == []


@pytest.mark.parametrize("damaged", [True, False])
def test_a_finished_save_replaces_only_a_damaged_one(tmp_path: Path, damaged: bool) -> None:
    saved = write_checkpoint(tmp_path, 20, ranks=1).rename(tmp_path / ".tmp-step_00000020")
    in_place = write_checkpoint(tmp_path, 20, ranks=2)
    if damaged:
        (in_place / "state.json").unlink()
    clear_leftovers(tmp_path)
    assert not saved.exists()
    assert verify_checkpoint(in_place) == []
    assert read_manifest(in_place).world.size == (1 if damaged else 2)


def test_no_folder_is_no_work(tmp_path: Path) -> None:
    assert clear_leftovers(tmp_path / "absent") == []
