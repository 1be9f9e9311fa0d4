"""A disk that fills up in the middle of a training (a small tmpfs), and the same command once there is room."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from neox_train.checkpoint.manifest import verify_checkpoint
from neox_train.config.layout import DatasetFolder
from neox_train.errors import StorageError
from neox_train.files import sha256_file
from neox_train.monitoring.metrics import read_metrics
from neox_train.training.distributed import RankContext
from neox_train.training.entry import train_rank
from tests.training.synthetic import write_run

CHECKPOINT_BYTES = 1_420_000


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system with room for one checkpoint and a half."""
    place = tmp_path / "disk"
    place.mkdir()
    if os.geteuid() != 0 or not _mount(place, "-t", "tmpfs", "tmpfs", size=int(1.5 * CHECKPOINT_BYTES)):
        pytest.skip("mounting a tmpfs needs root")
    yield place
    subprocess.run(["umount", str(place)], check=True)


def _mount(place: Path, *options: str, size: int) -> bool:
    command = ["mount", "-o", f"size={size}" if options else f"remount,size={size}", *options, str(place)]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def test_a_full_disk_is_one_sentence_and_room_is_all_it_needs(
    tmp_path: Path,
    small_disk: Path,
    dataset: DatasetFolder,
    alone: RankContext,
    capsys: pytest.CaptureFixture[str],
) -> None:
    whole = write_run(tmp_path / "whole", dataset)
    train_rank(str(whole.path))
    root = small_disk / "checkpoints"
    run = write_run(tmp_path / "run", dataset, save=str(root), load=str(root))
    capsys.readouterr()

    with pytest.raises(StorageError, match=rf"{root}.*\d+ bytes needed, \d+ bytes free.*same command"):
        train_rank(str(run.path))

    warning = next(line for line in capsys.readouterr().out.splitlines() if "checkpoints need" in line)
    assert str(root) in warning and "bytes are free" in warning
    assert verify_checkpoint(root / "step_00000010") == []
    assert sorted(path.name for path in root.iterdir()) == ["latest", "step_00000010"]
    assert not run.finished.exists()

    assert _mount(small_disk, size=10 * CHECKPOINT_BYTES)
    assert train_rank(str(run.path)) == "finished"

    expected, got = read_metrics(whole.metrics), read_metrics(run.metrics)
    assert [(r["kind"], r["step"], r["loss"]) for r in got] == [(r["kind"], r["step"], r["loss"]) for r in expected]
    last = [folder / "step_00000020" / "rank_00000.safetensors" for folder in (whole.checkpoints, root)]
    assert sha256_file(last[0]) == sha256_file(last[1])


def test_no_room_for_even_one_checkpoint_is_refused_before_the_first_step(
    small_disk: Path, tmp_path: Path, dataset: DatasetFolder, alone: RankContext
) -> None:
    root = small_disk / "checkpoints"
    (small_disk / "filler").write_bytes(b"0" * CHECKPOINT_BYTES)
    run = write_run(tmp_path / "run", dataset, save=str(root), load=str(root))
    with pytest.raises(StorageError, match=r"\d+ bytes needed, \d+ bytes free"):
        train_rank(str(run.path))
    assert not run.metrics.exists()
