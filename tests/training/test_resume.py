"""Resuming past damaged checkpoints (reported against other programs): the curve is that of the unbroken run."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from neox_train.checkpoint.manifest import Manifest, World, write_manifest
from neox_train.checkpoint.table import build_table
from neox_train.config.architecture import Architecture
from neox_train.config.layout import DatasetFolder, RunFolder
from neox_train.data.identity import identify_data
from neox_train.files import sha256_file
from neox_train.monitoring.metrics import read_metrics
from neox_train.training import resume
from neox_train.training.dataset import TrainingData
from neox_train.training.distributed import RankContext
from neox_train.training.entry import train_rank
from tests.data.pairs import write_pair
from tests.training.synthetic import resolve, write_dataset, write_run


def largest(folder: Path) -> Path:
    return max((path for path in folder.iterdir() if path.is_file()), key=lambda path: path.stat().st_size)


def cut_a_file(root: Path) -> None:
    file = largest(root / "step_00000030")
    with open(file, "r+b") as stream:
        stream.truncate(file.stat().st_size // 2)


def empty_all_files(root: Path) -> None:
    for step in ("step_00000020", "step_00000030"):
        for file in (root / step).iterdir():
            file.write_bytes(b"")


def delete_latest(root: Path) -> None:
    (root / "latest").unlink()


def empty_latest(root: Path) -> None:
    (root / "latest").write_bytes(b"")


def point_latest_astray(root: Path) -> None:
    (root / "latest").write_text("step_00000040\n")


def delete_a_file(root: Path) -> None:
    largest(root / "step_00000030").unlink()


def flip_a_byte(root: Path) -> None:
    with open(largest(root / "step_00000030"), "r+b") as stream:
        stream.seek(-100, 2)
        byte = stream.read(1)[0]
        stream.seek(-1, 1)
        stream.write(bytes([byte ^ 1]))


def what_was_learned(run: RunFolder) -> list[dict[str, object]]:
    """Every metrics record without what depends on the clock or the machine."""
    names = ("kind", "step", "loss", "mean_loss", "lr", "grad_norm", "skipped_steps", "consumed_samples")
    return [{name: record.get(name) for name in names} for record in read_metrics(run.metrics)]


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory, dataset: DatasetFolder) -> tuple[RunFolder, RunFolder]:
    """An unbroken run of 40 steps, and the same as it was after step 30."""
    return (
        write_run(tmp_path_factory.mktemp("resume") / "whole", dataset, train_iters=40, lr_decay_iters=40),
        RunFolder(tmp_path_factory.mktemp("resume") / "stopped"),
    )


def test_another_order_of_token_files_is_among_the_notices(tmp_path: Path, alone: RankContext) -> None:
    prefix = write_pair(tmp_path / "pair", [[token % 97 for token in range(400)] for _ in range(20)])
    dataset = write_dataset(tmp_path / "beside", train_tokens=500, validation_tokens=200)
    named = {"data_path": str(prefix), "split": "90,10,0", "eval_iters": 0}
    config = resolve(dataset, RunFolder(tmp_path / "run"), **named)
    manifest = Manifest(
        step=2,
        world=World(size=1, dp=1),
        parameters=build_table(Architecture.from_config(config)),
        files={},
        digests=dict(identify_data(config)),
        training_relevant=config.training_relevant(),
        other_settings={"train_iters": config.train_iters},
    )
    write_manifest(tmp_path / "step", manifest)
    for factor, is_told in ((1, False), (1_000, True)):
        longer = config.model_copy(update={"train_iters": config.train_iters * factor})
        data = TrainingData.open(longer)
        _, notices = resume._check(tmp_path / "step", longer, data.digests, data.order)
        assert any("samples come in another order" in notice for notice in notices) is is_told


@pytest.mark.parametrize(
    ("damage", "resumed_step", "skipped"),
    [
        (cut_a_file, 20, ["step_00000030"]),
        (empty_all_files, 10, ["step_00000030", "step_00000020"]),
        (delete_latest, 30, []),
        (empty_latest, 30, []),
        (point_latest_astray, 30, ["step_00000040"]),
        (delete_a_file, 20, ["step_00000030"]),
        (flip_a_byte, 20, ["step_00000030"]),
    ],
)
def test_the_newest_whole_checkpoint_is_found_and_the_run_ends_as_the_unbroken_one(
    damage: Callable[[Path], None],
    resumed_step: int,
    skipped: list[str],
    stopped: tuple[RunFolder, RunFolder],
    tmp_path: Path,
    alone: RankContext,
    capsys: pytest.CaptureFixture[str],
) -> None:
    whole, copy = stopped
    if not whole.finished.exists():
        train_rank(str(whole.path))
        shutil.copytree(whole.path, copy.path)
        shutil.rmtree(copy.checkpoints / "step_00000040")
        (copy.checkpoints / "latest").write_text("step_00000030\n")
        copy.finished.unlink()
    run = RunFolder(tmp_path / "run")
    shutil.copytree(copy.path, run.path)
    text = run.config_file.read_text().replace(str(whole.checkpoints), str(run.checkpoints))
    run.config_file.write_text(text)
    damage(run.checkpoints)
    capsys.readouterr()

    assert train_rank(str(run.path)) == "finished"

    log = capsys.readouterr().out
    assert f"step {resumed_step} of 40, from" in log
    for name in ("step_00000030", "step_00000020", "step_00000040"):
        assert (f"{name} skipped: " in log) == (name in skipped)
    assert what_was_learned(run) == what_was_learned(whole)
    last = [folder / "step_00000040" / "rank_00000.safetensors" for folder in (whole.checkpoints, run.checkpoints)]
    assert sha256_file(last[0]) == sha256_file(last[1])
