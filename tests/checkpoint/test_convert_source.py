"""Which checkpoint an export may be made from, on a run that the real trainer trained."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from neox_train.checkpoint.convert import ConvertOptions, convert_run
from neox_train.config.layout import DatasetFolder, RunFolder
from neox_train.errors import CheckpointError
from tests.checkpoint.trained_run import make_dataset, train_run


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> DatasetFolder:
    return make_dataset(tmp_path_factory.mktemp("datasets") / "text")


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory, dataset: DatasetFolder) -> RunFolder:
    return train_run(tmp_path_factory.mktemp("runs") / "small", dataset)


@pytest.fixture
def run(tmp_path: Path, trained: RunFolder) -> RunFolder:
    """A fresh copy of the trained run."""
    shutil.copytree(trained.path, tmp_path / "small")
    return RunFolder(tmp_path / "small")


def convert(run: RunFolder, **options: object) -> dict:
    return convert_run(run, ConvertOptions(**options), report=lambda _: None)  # type: ignore[arg-type]


def change_config(run: RunFolder, old: str, new: str) -> None:
    text = run.config_file.read_text()
    assert f"\n{old}\n" in text
    run.config_file.write_text(text.replace(f"\n{old}\n", f"\n{new}\n"))


def test_a_changed_configuration_of_the_same_shape_is_refused(run: RunFolder) -> None:
    change_config(run, "rotary_pct: 0.25", "rotary_pct: 0.5")
    with pytest.raises(CheckpointError, match=r"config\.yml is not the configuration .*rotary_pct 0\.25, now 0\.5"):
        convert(run)
    assert not run.hf.exists() and not run.converted.exists()
    with pytest.raises(CheckpointError, match=r"another model than .*rotary_pct 0\.25, now 0\.5"):
        convert(run, step_folder=run.checkpoints / "step_00000001")


def test_another_dataset_than_the_trained_one_is_refused(
    run: RunFolder, dataset: DatasetFolder, tmp_path: Path
) -> None:
    other = shutil.copytree(dataset.path, tmp_path / "other")
    manifest = json.loads((other / "manifest.json").read_text())
    (other / "manifest.json").write_text(json.dumps(manifest | {"digest": "0" * 64}))
    run.config_file.write_text(run.config_file.read_text().replace(str(dataset.path), str(other)))
    with pytest.raises(CheckpointError, match="not the dataset that"):
        convert(run)


def test_another_checkpoint_is_exported_beside_the_run_s_own(run: RunFolder) -> None:
    first = convert(run)
    kept = {path: path.read_bytes() for path in (run.converted, run.parity, run.hf / "config.json")}
    second = convert(run, step_folder=run.checkpoints / "step_00000001")
    assert second["checkpoint"] == "step_00000001"
    assert second["files"]["model.safetensors"] != first["files"]["model.safetensors"]
    assert {path: path.read_bytes() for path in kept} == kept
    assert (run.path / "hf-step_00000001" / "model.safetensors").is_file()
    assert json.loads((run.path / "parity-step_00000001.json").read_text())["within_tolerance"]


def test_a_checkpoint_alone_gives_no_marker_before_the_training_ends(run: RunFolder) -> None:
    run.finished.unlink()
    convert(run, step_folder=run.checkpoints / "step_00000001")
    assert not run.converted.exists() and not run.hf.exists()


def test_naming_the_trained_checkpoint_is_the_stage_itself(run: RunFolder) -> None:
    convert(run, step_folder=run.checkpoints / "step_00000002")
    assert run.converted.is_file() and run.hf.is_dir()


def test_an_export_outlives_its_checkpoint(run: RunFolder) -> None:
    first = convert(run)
    shutil.rmtree(run.checkpoints)
    run.converted.unlink()
    assert convert(run) == first
    assert json.loads(run.converted.read_text()) == first
    (run.hf / "model.safetensors").unlink()
    with pytest.raises(CheckpointError, match=r"step_00000002, which finished\.json names, is gone"):
        convert(run)
