"""Exports of tensor-parallel trainings compute what the ranks computed together, whatever their biases are."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from neox_train.checkpoint.parity import build_trained_model, load_export
from neox_train.config.architecture import Architecture
from neox_train.config.layout import RunFolder
from neox_train.config.load import load_config, write_config
from neox_train.data.manifest import load_manifest
from tests.checkpoint.exported import load_canonical, name_export
from tests.checkpoint.trained_run import CASES, make_dataset
from tests.gloo import run_ranks

pytestmark = pytest.mark.distributed

RUNS: dict[str, tuple[str, dict[str, Any]]] = {
    "serial": ("21-serial.yml", {}),
    "parallel": ("21-parallel.yml", {}),
    "gated": (
        "21-serial.yml",
        {
            "sequence_parallel": True,
            "norm": "rmsnorm",
            "activation": "swiglu",
            "intermediate_size": 288,
            "num_kv_heads": 2,
            "rotary_pct": 1.0,
            "use_bias_in_mlp": True,
        },
    ),
}
RANKS = 2
TOLERANCE = 1e-4
Seen = dict[str, torch.Tensor]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Every run, trained by two ranks from random biases and exported."""
    folder = tmp_path_factory.mktemp("tensor-export")
    dataset = make_dataset(folder / "dataset")
    runs = [RunFolder(folder / name) for name in RUNS]
    for run, (case, changes) in zip(runs, RUNS.values(), strict=True):
        places = {"data_path": str(dataset.path), "save": str(run.checkpoints), "load": str(run.checkpoints)}
        files = [CASES / name for name in ("base.yml", "optimizer.yml", case)]
        config = load_config(files, overrides=places | changes, world_size=RANKS)
        write_config(config.with_vocab_size(load_manifest(dataset.path).vocab_size), run.config_file)
    job = folder / "job.json"
    job.write_text(json.dumps([str(run.path) for run in runs]))
    run_ranks("tests.checkpoint.tensor_export_worker", job, RANKS)
    return folder


@pytest.fixture(params=RUNS)
def run(request: pytest.FixtureRequest, folder: Path) -> RunFolder:
    return RunFolder(folder / request.param)


@pytest.fixture
def seen(run: RunFolder) -> Seen:
    """Tokens, and the logits of the two ranks."""
    return load_file(run.path.with_suffix(".safetensors"))


@torch.no_grad()
def test_the_export_computes_what_the_ranks_computed(run: RunFolder, seen: Seen) -> None:
    exported = load_export(name_export(run))(input_ids=seen["tokens"]).logits
    assert seen["trained"].std() > 0.1
    torch.testing.assert_close(exported, seen["trained"], rtol=0, atol=TOLERANCE)


@torch.no_grad()
def test_the_export_read_back_computes_the_same_on_one_rank_and_on_two(run: RunFolder, seen: Seen) -> None:
    architecture = Architecture.from_config(load_config([run.config_file], world_size=RANKS))
    weights = load_canonical(name_export(run), architecture)
    alone = build_trained_model(weights, architecture, dtype="float32")(seen["tokens"])
    for logits in (alone, seen["imported"]):
        torch.testing.assert_close(logits, seen["trained"], rtol=0, atol=TOLERANCE)


def test_the_biases_are_not_zero(run: RunFolder) -> None:
    architecture = Architecture.from_config(load_config([run.config_file], world_size=RANKS))
    biases = {n: t for n, t in load_canonical(name_export(run), architecture).items() if n.endswith(".bias")}
    assert len(biases) >= 8
    assert all(0.3 < float(bias.std()) < 0.7 for bias in biases.values())
