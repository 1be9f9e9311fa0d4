"""Case 19 at this room's level, on real small file systems: a disk without room for the second checkpoint."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from neox_train.checkpoint.manifest import read_manifest, verify_checkpoint
from tests.checkpoint.launch import launch
from tests.checkpoint.variants import EXACT

pytestmark = [pytest.mark.distributed, pytest.mark.timeout(600)]

ROOMY_BYTES = 64 * 2**20
FIRST, SECOND = "step_00000002", "step_00000004"
Resize = Callable[[Path, int], None]


@pytest.fixture(scope="module")
def disks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[list[Path], Resize]]:
    """Two small file systems of their own, and a function that changes the size of one."""
    folders = [tmp_path_factory.mktemp("disk") for _ in range(2)]
    mounted: list[Path] = []
    try:
        for folder in folders:
            done = _mount("-t", "tmpfs", "-o", f"size={ROOMY_BYTES}", "tmpfs", str(folder))
            if done.returncode != 0:
                pytest.skip(
                    f"a small file system cannot be mounted here ({done.stderr.strip()}); run the tests as root"
                )
            mounted.append(folder)
        yield folders, lambda folder, size: _check(_mount("-o", f"remount,size={size}", str(folder)))
    finally:
        for folder in mounted:
            subprocess.run(["umount", "-l", str(folder)], check=False)


@pytest.fixture(scope="module")
def story(disks: tuple[list[Path], Resize], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Save on both disks, shrink them, fail to save, make room, save: three launches of two ranks.

    The first disk has room for half a checkpoint, which is seen before anything is written. The second has room for
    the ranks' files and not for what rank 0 writes after them.
    """
    folders, resize = disks
    place = tmp_path_factory.mktemp("story")
    overrides = EXACT["fp32-zero1"]
    (folders[0] / ".tmp-step_00000002").mkdir()
    begin = [{"overrides": overrides, "steps": 2, "save_at": [2], "root": str(root)} for root in folders]
    go_on = [
        {"overrides": overrides, "steps": 2, "save_at": [4], "root": str(root), "restore": str(root / FIRST)}
        for root in folders
    ]
    unbroken = [rank[0] for rank in launch(place, "begin", [{"overrides": overrides, "steps": 4}, *begin], ranks=2)]
    sizes = read_manifest(folders[0] / FIRST).files
    tensors = sum(record.bytes for name, record in sizes.items() if name.startswith("rank_"))
    resize(folders[0], _used_bytes(folders[0]) + tensors // 2)
    resize(folders[1], _used_bytes(folders[1]) + tensors + 4 * os.sysconf("SC_PAGE_SIZE"))
    failed = launch(place, "failed", go_on, ranks=2)
    left = [sorted(path.name for path in folder.iterdir()) for folder in folders]
    problems = [verify_checkpoint(folder / FIRST) for folder in folders]
    for folder in folders:
        resize(folder, ROOMY_BYTES)
    return {
        "unbroken": unbroken,
        "failed": failed,
        "left": left,
        "problems": problems,
        "resumed": launch(place, "resumed", go_on, ranks=2),
        "folders": folders,
    }


@pytest.mark.parametrize("disk", [0, 1], ids=["seen before writing", "full while writing"])
def test_every_rank_gets_one_sentence_with_path_needed_and_free(story: dict[str, Any], disk: int) -> None:
    answers = [rank[disk]["saves"][0] for rank in story["failed"]]
    assert answers[0] == answers[1]
    kind, sentence = answers[0]
    assert kind == "StorageError"
    assert str(story["folders"][disk]) in sentence
    needed, free = (int(number) for number in re.findall(r"(\d+) bytes", sentence))
    assert needed > 500_000
    assert 0 < free < 3 * needed


@pytest.mark.parametrize("disk", [0, 1])
def test_the_first_checkpoint_still_verifies_and_nothing_else_is_left(story: dict[str, Any], disk: int) -> None:
    assert story["problems"][disk] == []
    assert story["left"][disk] == ["latest", FIRST]


@pytest.mark.parametrize("disk", [0, 1])
def test_with_room_made_the_same_tasks_end_as_the_unbroken_run(story: dict[str, Any], disk: int) -> None:
    for rank in (0, 1):
        resumed, unbroken = story["resumed"][rank][disk], story["unbroken"][rank]
        assert resumed["saves"] == [["saved", SECOND]]
        assert resumed["losses"] == unbroken["losses"][2:]
        assert resumed["final"] == unbroken["final"]
    assert verify_checkpoint(story["folders"][disk] / SECOND) == []


def _used_bytes(folder: Path) -> int:
    disk = os.statvfs(folder)
    return (disk.f_blocks - disk.f_bfree) * disk.f_frsize


def _mount(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["mount", *arguments], capture_output=True, text=True, check=False)


def _check(done: subprocess.CompletedProcess[str]) -> None:
    assert done.returncode == 0, done.stderr
