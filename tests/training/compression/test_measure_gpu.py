"""What ``gradient_compression: auto`` takes for a step's computing, against the training's own steps on a GPU."""

from __future__ import annotations

import time
from statistics import median
from typing import Any

import pytest
import torch

from neox_train.config.architecture import Architecture
from neox_train.config.layout import DatasetFolder, RunFolder
from neox_train.training.compression.auto import build_bare_model
from neox_train.training.compression.measure import measure_step
from neox_train.training.dataset import TrainingData
from neox_train.training.distributed import RankContext
from neox_train.training.engine import build_engine
from neox_train.training.step import run_step
from tests.training.synthetic import resolve

MODEL: dict[str, Any] = {
    "hidden_size": 1024,
    "num_attention_heads": 16,
    "num_layers": 12,
    "seq_length": 1024,
    "max_position_embeddings": 1024,
    "make_vocab_size_divisible_by": 50304,
    "train_batch_size": 16,
    "train_micro_batch_size_per_gpu": 8,
    "precision": "bfloat16",
    "zero_optimization": {"stage": 0},
    "eval_iters": 0,
}
WARM, STEPS = 5, 10


@pytest.mark.gpu
def test_the_probe_computes_as_fast_as_the_training(dataset: DatasetFolder, alone: RankContext) -> None:
    config = resolve(dataset, RunFolder("unused"), **MODEL)
    began = time.perf_counter()
    probe = build_bare_model(config, alone, None)
    probed = measure_step(config, probe, alone, 2).compute_seconds
    print(f"probe {1000 * probed:.1f} ms a step, measured in {time.perf_counter() - began:.1f} s")
    del probe
    began = time.perf_counter()
    engine, _ = build_engine(config, Architecture.from_config(config), alone)
    batches = TrainingData.open(config).train_batches(config, alone, 0)
    seconds = []
    for step in range(WARM + STEPS):
        torch.cuda.synchronize()
        started = time.perf_counter()
        run_step(engine, batches, lr=1e-4, context=alone)
        torch.cuda.synchronize()
        seconds.append(time.perf_counter() - started)
        if not step:
            print(f"first step after {time.perf_counter() - began:.1f} s")
    trained = median(seconds[WARM:])
    print(f"training {1000 * trained:.1f} ms a step")
    assert probed == pytest.approx(trained, rel=0.25)
