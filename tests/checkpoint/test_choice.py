"""Case 18 at this room's level: which checkpoint a resume takes, and the reason for every one it passes over."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from neox_train.checkpoint.choice import choose_checkpoint
from tests.checkpoint.small_checkpoint import list_tree, write_checkpoint

STEPS = (10, 20, 30)


def cut_one_file(root: Path) -> None:
    path = root / "step_00000030" / "rank_00000.safetensors"
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def empty_all_files(root: Path) -> None:
    for step in ("step_00000030", "step_00000020"):
        for path in (root / step).iterdir():
            path.write_bytes(b"")


def delete_latest(root: Path) -> None:
    (root / "latest").unlink()


def empty_latest(root: Path) -> None:
    (root / "latest").write_bytes(b"")


def name_a_missing_step(root: Path) -> None:
    (root / "latest").write_text("step_00000040\n")


def delete_one_file(root: Path) -> None:
    (root / "step_00000030" / "rank_00001.safetensors").unlink()


def flip_one_byte(root: Path) -> None:
    path = max((root / "step_00000030").glob("*.safetensors"), key=lambda file: file.stat().st_size)
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 0x40
    path.write_bytes(data)


@pytest.mark.parametrize(
    ("damage", "chosen", "skipped"),
    [
        (cut_one_file, 20, {"step_00000030": "the manifest says"}),
        (empty_all_files, 10, {"step_00000030": "is empty", "step_00000020": "is empty"}),
        (delete_latest, 30, {}),
        (empty_latest, 30, {}),
        (name_a_missing_step, 30, {"step_00000040": "not there"}),
        (delete_one_file, 20, {"step_00000030": "rank_00001.safetensors is missing"}),
        (flip_one_byte, 20, {"step_00000030": "SHA-256"}),
    ],
    ids=["A", "B", "C", "D", "E", "F", "G"],
)
def test_case_18(tmp_path: Path, damage: Callable[[Path], None], chosen: int, skipped: dict[str, str]) -> None:
    for step in STEPS:
        write_checkpoint(tmp_path, step)
    damage(tmp_path)
    before = list_tree(tmp_path)
    folder, reasons = choose_checkpoint(tmp_path)
    assert folder == tmp_path / f"step_{chosen:08d}"
    assert [path.name for path, _ in reasons] == list(skipped)
    assert all(skipped[path.name] in reason for path, reason in reasons)
    assert list_tree(tmp_path) == before


def test_nothing_to_choose(tmp_path: Path) -> None:
    assert choose_checkpoint(tmp_path) == (None, [])
    assert choose_checkpoint(tmp_path / "absent") == (None, [])


def test_nine_digits_are_newer_than_eight(tmp_path: Path) -> None:
    for step in (99_999_999, 100_000_000):
        write_checkpoint(tmp_path, step)
    assert choose_checkpoint(tmp_path)[0] == tmp_path / "step_100000000"


def test_modification_times_do_not_count(tmp_path: Path) -> None:
    write_checkpoint(tmp_path, 900)
    write_checkpoint(tmp_path, 10_000)
    shutil.copytree(tmp_path / "step_00000900", tmp_path / "copy")
    assert choose_checkpoint(tmp_path)[0] == tmp_path / "step_00010000"
