"""A checkpoint of tensor-parallel ranks or pipeline stages: exact at the same degree, the same training at another."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from neox_train.checkpoint.weights import read_model_weights
from neox_train.config.layout import DatasetFolder
from tests.gloo import run_ranks

pytestmark = pytest.mark.distributed

STEPS, SAVED_AT = 8, 4
MODEL: dict[str, Any] = {
    "train_batch_size": 8,
    "train_micro_batch_size_per_gpu": None,
    "norm": "rmsnorm",
    "activation": "swiglu",
    "mlp_multiple_of": 4,
    "num_kv_heads": 2,
    "no_weight_tying": False,
    # 97 tokens padded to 256 rows: the second of two shards is padding alone.
    "make_vocab_size_divisible_by": 128,
}
TENSOR: dict[str, Any] = {**MODEL, "model_parallel_size": 2, "sequence_parallel": True}
PIPELINE: dict[str, Any] = {**MODEL, "pipe_parallel_size": 2, "gradient_accumulation_steps": 2}
SHARDED = {"zero_optimization": {"stage": 1}}


@pytest.fixture(scope="module")
def trained(dataset: DatasetFolder, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Results of trainings that were saved at one layout and went on at another."""
    folder = tmp_path_factory.mktemp("reshape")

    def step_of(name: str) -> str:
        return str(folder / name / "checkpoints" / f"step_{SAVED_AT:08}")

    layouts = {
        "tensor": {**TENSOR, "save_at": SAVED_AT},
        "data": {**MODEL, "save_at": SAVED_AT},
        "pipeline": {**PIPELINE, **SHARDED, "save_at": SAVED_AT},
        "pipeline-again": {**PIPELINE, **SHARDED, "restore": step_of("pipeline")},
        "pipeline-from-tensor": {**PIPELINE, "restore": step_of("tensor")},
        "tensor-from-pipeline": {**TENSOR, "restore": step_of("pipeline")},
        "tensor-again": {**TENSOR, "restore": step_of("tensor"), "save_at": STEPS},
        "data-from-tensor": {**MODEL, **SHARDED, "restore": step_of("tensor")},
        "tensor-from-data": {**TENSOR, **SHARDED, "restore": step_of("data")},
        "other-padding": {**TENSOR, "make_vocab_size_divisible_by": 16, "restore": step_of("tensor")},
    }
    job = {"dataset": str(dataset.path), "results": str(folder), "steps": STEPS, "layouts": layouts}
    (folder / "job.json").write_text(json.dumps(job))
    run_ranks("tests.training.layout_worker", folder / "job.json", 2)
    return folder


def losses(folder: Path, name: str) -> list[float]:
    return list(json.loads((folder / f"{name}.json").read_text())["losses"])


@pytest.mark.parametrize("name", ["tensor", "pipeline"])
def test_the_same_degree_continues_bit_for_bit(trained: Path, name: str) -> None:
    assert losses(trained, f"{name}-again") == losses(trained, name)[SAVED_AT:]


@pytest.mark.parametrize(
    "name",
    ["data-from-tensor", "tensor-from-data", "other-padding", "pipeline-from-tensor", "tensor-from-pipeline"],
)
def test_another_degree_continues_the_same_training(trained: Path, name: str) -> None:
    assert losses(trained, name) == pytest.approx(losses(trained, "data")[SAVED_AT:], rel=1e-5)


@pytest.mark.parametrize("name", ["tensor", "pipeline"])
def test_whole_weights_are_read_from_the_parts(trained: Path, name: str) -> None:
    cut, whole = (read_model_weights(trained / run / "checkpoints" / f"step_{SAVED_AT:08}") for run in (name, "data"))
    assert list(cut) == list(whole)
    for parameter, tensor in whole.items():
        torch.testing.assert_close(cut[parameter], tensor, rtol=1e-4, atol=1e-5)
