from __future__ import annotations

import json
from pathlib import Path

import pytest

from neox_train.checkpoint.manifest import inspect_manifest, read_manifest, verify_checkpoint
from neox_train.errors import CheckpointError
from tests.checkpoint.small_checkpoint import RELEVANT, WEIGHTS, write_checkpoint


def test_a_manifest_reads_back_as_written(tmp_path: Path) -> None:
    manifest = read_manifest(write_checkpoint(tmp_path, 30, final=True))
    assert (manifest.step, manifest.final, manifest.format_version, manifest.world.dp) == (30, True, 1, 2)
    assert {name: record.shape for name, record in manifest.parameters.items()} == WEIGHTS
    assert manifest.training_relevant == RELEVANT


def test_a_complete_checkpoint_has_no_problems(tmp_path: Path) -> None:
    assert verify_checkpoint(write_checkpoint(tmp_path, 30)) == []


def test_a_changed_byte_is_found_by_the_deep_check_alone(tmp_path: Path) -> None:
    folder = write_checkpoint(tmp_path, 30)
    path = folder / "rank_00001.safetensors"
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    assert verify_checkpoint(folder, deep=False) == []
    assert verify_checkpoint(folder, deep=True) == [
        "rank_00001.safetensors does not match its SHA-256 (its bytes changed after saving)"
    ]


def test_a_flipped_digit_in_the_manifest_itself_is_found(tmp_path: Path) -> None:
    folder = write_checkpoint(tmp_path, 30)
    path = folder / "manifest.json"
    path.write_text(path.read_text().replace('"hidden_size": 64', '"hidden_size": 65'))
    assert "its own digest" in verify_checkpoint(folder)[0]


@pytest.mark.parametrize(
    ("text", "reason"),
    [("", "is empty"), ("{", "is not JSON"), ("[]", "not a checkpoint's manifest"), ('{"format_version": 2}', "2, ")],
)
def test_a_manifest_that_does_not_count_says_why(tmp_path: Path, text: str, reason: str) -> None:
    folder = write_checkpoint(tmp_path, 30)
    (folder / "manifest.json").write_text(text)
    manifest, problem = inspect_manifest(folder)
    assert manifest is None
    assert reason in str(problem)


def test_a_renamed_folder_does_not_count(tmp_path: Path) -> None:
    folder = write_checkpoint(tmp_path, 30).rename(tmp_path / "step_00000040")
    assert "step 30" in verify_checkpoint(folder)[0]


def test_reading_a_missing_manifest_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"no complete checkpoint: manifest\.json is missing"):
        read_manifest(tmp_path)


def test_the_manifest_holds_size_and_hash_of_every_file(tmp_path: Path) -> None:
    folder = write_checkpoint(tmp_path, 30)
    files = json.loads((folder / "manifest.json").read_text())["files"]
    assert files.keys() == {path.name for path in folder.iterdir()} - {"manifest.json"}
