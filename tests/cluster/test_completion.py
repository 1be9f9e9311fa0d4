import shutil
from pathlib import Path

import pytest

from neox_train.cluster.completion import lost_checkpoint_notice, read_finished, unfinished_reason
from neox_train.cluster.resumable import require_resumable, require_start
from neox_train.config.layout import DatasetFolder, RunFolder
from neox_train.config.load import load_config
from neox_train.config.schema import NeoxConfig
from neox_train.config.variables import ALLOW_CHANGE
from neox_train.errors import CheckpointError
from tests.cluster.trained_folder import VOCAB_SIZE, make_dataset, make_trained_run


@pytest.fixture
def dataset(tmp_path: Path) -> DatasetFolder:
    return make_dataset(DatasetFolder.of(tmp_path, "words"))


@pytest.fixture
def run(tmp_path: Path) -> RunFolder:
    return RunFolder.of(tmp_path, "serial")


@pytest.fixture
def config(run: RunFolder, dataset: DatasetFolder) -> NeoxConfig:
    return make_trained_run(run, dataset)


def with_changes(run: RunFolder, **changes: object) -> NeoxConfig:
    return load_config([run.config_file], overrides=changes).with_vocab_size(VOCAB_SIZE)


def test_a_finished_run_is_done(run: RunFolder, config: NeoxConfig) -> None:
    assert unfinished_reason(run, config, deep=True) is None
    assert lost_checkpoint_notice(run, read_finished(run) or {}) is None
    require_resumable(run, config)


def test_a_run_trained_on_another_dataset_is_not_done(
    run: RunFolder, config: NeoxConfig, dataset: DatasetFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_dataset(dataset, tokens=b"87654321")
    assert unfinished_reason(run, config, deep=True) == "trained on another dataset"
    with pytest.raises(CheckpointError, match=r"dataset .*--allow-change dataset"):
        require_resumable(run, config)
    monkeypatch.setenv(ALLOW_CHANGE, "dataset")
    require_resumable(run, config)


def test_a_dataset_that_is_gone_contradicts_nothing(run: RunFolder, config: NeoxConfig, dataset: DatasetFolder) -> None:
    shutil.rmtree(dataset.path)
    assert unfinished_reason(run, config, deep=True) is None


def test_another_configuration_is_refused_before_a_job_is_queued(run: RunFolder, config: NeoxConfig) -> None:
    changed = with_changes(run, weight_decay=0.3)
    assert unfinished_reason(run, changed, deep=True) == "the finished training had another configuration"
    with pytest.raises(CheckpointError, match="--allow-change weight_decay"):
        require_resumable(run, changed)


def test_more_steps_continue(run: RunFolder, dataset: DatasetFolder) -> None:
    make_trained_run(run, dataset, lr_decay_iters=None)
    longer = with_changes(run, train_iters=40, lr_decay_iters=None)
    assert unfinished_reason(run, longer, deep=True) == "trained to step 20 of 40"
    require_resumable(run, longer)


def test_an_export_stands_in_for_a_lost_checkpoint(run: RunFolder, config: NeoxConfig) -> None:
    shutil.rmtree(run.checkpoints)
    assert unfinished_reason(run, config, deep=True) is None
    notice = lost_checkpoint_notice(run, read_finished(run) or {})
    assert notice is not None and "step_00000020 is gone" in notice and "not repeated" in notice


@pytest.mark.parametrize("lost", ["hf/config.json", "hf/neox_train.json", "parity.json"])
def test_without_a_whole_export_a_lost_checkpoint_is_trained_again(
    run: RunFolder, config: NeoxConfig, lost: str
) -> None:
    shutil.rmtree(run.checkpoints)
    (run.path / lost).unlink()
    assert unfinished_reason(run, config, deep=True) == "its checkpoint step_00000020 is gone"
    assert lost_checkpoint_notice(run, read_finished(run) or {}) is None


def test_what_load_names_must_be_there_when_the_training_starts(
    run: RunFolder, config: NeoxConfig, tmp_path: Path
) -> None:
    nowhere = with_changes(run, load=str(tmp_path / "nowhere"), save=str(tmp_path / "new"))
    require_resumable(run, nowhere)
    with pytest.raises(CheckpointError, match=r"`load: .*nowhere` holds no complete checkpoint"):
        require_start(run, nowhere)
    other = with_changes(run, load=str(run.checkpoints), save=str(tmp_path / "new"))
    require_start(run, other)
    with pytest.raises(CheckpointError, match="--allow-change weight_decay"):
        require_start(run, with_changes(run, load=other.load, save=other.save, weight_decay=0.3))
    # Of a run that begins with weights alone only their shapes count; this checkpoint has none.
    with pytest.raises(CheckpointError, match="holds another model"):
        require_start(run, with_changes(run, load=other.load, save=other.save, weight_decay=0.3, finetune=True))
    # A run that has begun goes on from its own.
    require_start(run, with_changes(run, load=str(tmp_path / "nowhere")))
