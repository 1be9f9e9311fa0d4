"""A training that begins with another run's weights and nothing else of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from neox_train.checkpoint.manifest import read_manifest
from neox_train.checkpoint.resume import check_weights
from neox_train.checkpoint.weights import read_model_weights
from neox_train.config.layout import DatasetFolder, RunFolder
from neox_train.errors import CheckpointError
from neox_train.monitoring.metrics import read_metrics
from neox_train.training.distributed import RankContext
from neox_train.training.entry import train_rank
from tests.training.synthetic import resolve, write_run

SHORT: dict[str, Any] = {
    "train_iters": 6,
    "lr_decay_iters": 6,
    "checkpoint_factor": 6,
    "eval_iters": 0,
    "log_interval": 1,
}
OTHERWISE: dict[str, Any] = {
    **SHORT,
    "finetune": True,
    "extra_save_iters": [0],
    "optimizer": {"type": "Lion", "params": {"lr": 1e-4, "betas": [0.9, 0.99]}},
    "seed": 99,
    "precision": "bfloat16",
    "zero_optimization": {"stage": 1},
}
"""Another optimizer, seed, precision and stage: of the first training only the weights are of use."""


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory, dataset: DatasetFolder) -> RunFolder:
    return write_run(tmp_path_factory.mktemp("finetune") / "first", dataset, **SHORT)


def weights_at(run: RunFolder, step: int) -> dict[str, torch.Tensor]:
    return read_model_weights(run.checkpoints / f"step_{step:08d}")


def test_it_begins_with_the_weights_alone_and_goes_on_from_its_own_checkpoints(
    first: RunFolder, dataset: DatasetFolder, tmp_path: Path, alone: RankContext, capsys: pytest.CaptureFixture[str]
) -> None:
    if not first.finished.exists():
        train_rank(str(first.path))
    learnt = weights_at(first, 6)
    run = write_run(tmp_path / "second", dataset, **OTHERWISE, load=str(first.checkpoints))
    capsys.readouterr()
    assert train_rank(str(run.path)) == "finished"
    assert f"step 0 of 6, weights from {first.checkpoints / 'step_00000006'}" in capsys.readouterr().out
    begun = weights_at(run, 0)
    assert begun.keys() == learnt.keys()
    assert all(torch.equal(begun[name], learnt[name]) for name in learnt)
    records = [record for record in read_metrics(run.metrics) if record["kind"] == "train"]
    assert [record["step"] for record in records] == [1, 2, 3, 4, 5, 6]
    assert records[0]["consumed_samples"] == records[1]["consumed_samples"] / 2
    before = [record["loss"] for record in read_metrics(first.metrics) if record["kind"] == "train"]
    assert records[0]["loss"] < before[0] - 0.3

    longer = write_run(run.path, dataset, **{**OTHERWISE, "train_iters": 8}, load=str(first.checkpoints))
    assert train_rank(str(longer.path)) == "finished"
    out = capsys.readouterr().out
    assert f"step 6 of 8, from {run.checkpoints / 'step_00000006'}" in out and "weights from" not in out


def test_weights_of_another_shape_are_refused_and_another_tokenizer_is_told(
    first: RunFolder, dataset: DatasetFolder, tmp_path: Path, alone: RankContext
) -> None:
    if not first.finished.exists():
        train_rank(str(first.path))
    wider = write_run(tmp_path / "wider", dataset, **OTHERWISE, load=str(first.checkpoints), hidden_size=128)
    with pytest.raises(CheckpointError, match="holds another model"):
        train_rank(str(wider.path))
    manifest = read_manifest(first.checkpoints / "step_00000006")
    config = resolve(dataset, RunFolder(tmp_path), **OTHERWISE, load=str(first.checkpoints))
    assert check_weights(manifest, config, manifest.digests) == []
    (notice,) = check_weights(manifest, config, {**manifest.digests, "tokenizer": "e" * 64})
    assert notice.startswith(f"`load: {first.checkpoints}` (step_00000006) was trained with another tokenizer")
