from __future__ import annotations

from pathlib import Path

import pytest

from neox_train.checkpoint.folders import discard_folder, list_steps, name_step, parse_step, read_latest, write_latest


def test_names_have_eight_digits_and_grow_past_them() -> None:
    assert name_step(1000) == "step_00001000"
    assert name_step(100_000_000) == "step_100000000"


@pytest.mark.parametrize("step", [0, 7, 99_999_999, 100_000_000])
def test_a_name_reads_back(step: int) -> None:
    assert parse_step(name_step(step)) == step


@pytest.mark.parametrize("name", ["step_7", "step_000000100", "step_0000000x", ".tmp-step_00000010", "global_step10"])
def test_other_names_are_no_steps(name: str) -> None:
    assert parse_step(name) is None


def test_steps_are_listed_by_number_newest_first(tmp_path: Path) -> None:
    for step in (99_999_999, 900, 100_000_000, 10_000):
        (tmp_path / name_step(step)).mkdir()
    (tmp_path / ".tmp-step_00000010").mkdir()
    assert [step for step, _ in list_steps(tmp_path)] == [100_000_000, 99_999_999, 10_000, 900]


def test_latest_names_a_folder_and_is_absent_when_empty(tmp_path: Path) -> None:
    assert read_latest(tmp_path) is None
    write_latest(tmp_path, 30)
    assert read_latest(tmp_path) == "step_00000030"
    (tmp_path / "latest").write_text("")
    assert read_latest(tmp_path) is None


def test_a_discarded_folder_leaves_nothing(tmp_path: Path) -> None:
    folder = tmp_path / name_step(3)
    folder.mkdir()
    (folder / "file").write_text("x")
    discard_folder(folder)
    assert list(tmp_path.iterdir()) == []
