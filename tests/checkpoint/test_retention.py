from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from neox_train.checkpoint.folders import parse_step
from neox_train.checkpoint.retention import prune
from tests.checkpoint.small_checkpoint import write_checkpoint


def lay_out_case_17(root: Path, cases: Path) -> dict[str, str]:
    """Build the folder that the case describes; returns what must happen to each checkpoint."""
    expected = {}
    lines = (cases / "17-retention.tsv").read_text().splitlines()
    for line in (line for line in lines if not line.startswith("#")):
        name, complete, hours_ago, kept = line.split("\t")
        step = parse_step(name)
        assert step is not None
        folder = write_checkpoint(root, step)
        if not complete.startswith("yes"):
            (folder / "manifest.json").unlink()
        moment = time.time() - 3600 * float(hours_ago)
        for path in (folder, *folder.iterdir()):
            os.utime(path, (moment, moment))
        expected[name] = kept
    return expected


def list_folders(root: Path) -> set[str]:
    return {path.name for path in root.iterdir() if path.is_dir()}


def test_case_17(tmp_path: Path, cases: Path) -> None:
    expected = lay_out_case_17(tmp_path, cases)
    removed = prune(tmp_path, 2, protect=[1])
    assert {path.name for path in removed} == {name for name, kept in expected.items() if kept == "no"}
    assert list_folders(tmp_path) == {name for name, kept in expected.items() if kept != "no"}


@pytest.mark.parametrize("keep_last_n", [0, -1, None])
def test_case_17_keeps_all_without_a_number(tmp_path: Path, cases: Path, keep_last_n: int | None) -> None:
    expected = lay_out_case_17(tmp_path, cases)
    assert prune(tmp_path, keep_last_n, protect=[1]) == []
    assert list_folders(tmp_path) == set(expected)


def test_nine_digits_are_newer_than_eight(tmp_path: Path) -> None:
    for step in (99_999_998, 99_999_999, 100_000_000):
        write_checkpoint(tmp_path, step)
    prune(tmp_path, 1)
    assert list_folders(tmp_path) == {"step_100000000"}


def test_a_final_checkpoint_stays(tmp_path: Path) -> None:
    write_checkpoint(tmp_path, 10, final=True)
    for step in (20, 30):
        write_checkpoint(tmp_path, step)
    prune(tmp_path, 1)
    assert list_folders(tmp_path) == {"step_00000010", "step_00000030"}


def test_a_run_that_fell_back_keeps_what_it_has_just_saved(tmp_path: Path) -> None:
    for step in (10, 20, 25, 30):
        write_checkpoint(tmp_path, step)
    prune(tmp_path, 1, up_to=25)
    assert list_folders(tmp_path) == {"step_00000025", "step_00000030"}


def test_unfinished_and_foreign_folders_stay(tmp_path: Path) -> None:
    for name in (".tmp-step_00000040", "global_step10", "step_7"):
        (tmp_path / name).mkdir()
    for step in (10, 20):
        write_checkpoint(tmp_path, step)
    prune(tmp_path, 1)
    assert list_folders(tmp_path) == {".tmp-step_00000040", "global_step10", "step_7", "step_00000020"}
