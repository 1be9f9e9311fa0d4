"""What the engine holds before the first step, in every wrapper that one process can have."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from neox_train.checkpoint.engine_state import open_engine
from neox_train.config.architecture import Architecture
from neox_train.config.layout import DatasetFolder, RunFolder
from neox_train.training.dataset import TrainingData
from neox_train.training.distributed import RankContext
from neox_train.training.engine import build_engine
from neox_train.training.step import run_step
from tests.training.synthetic import resolve

WRAPPERS: dict[str, dict[str, Any]] = {
    "fp32": {"zero_optimization": {"stage": 0}},
    "bf16": {"zero_optimization": {"stage": 0}, "precision": "bfloat16"},
    "bf16 ZeRO 1": {"zero_optimization": {"stage": 1}, "precision": "bfloat16"},
    "bf16 ZeRO 2": {"zero_optimization": {"stage": 2}, "precision": "bfloat16"},
    "bf16 flat": {"zero_optimization": {"stage": 0}, "precision": "bfloat16", "flat_master_weights": True},
}


@pytest.mark.parametrize("wrapper", WRAPPERS)
def test_the_first_step_is_adams_first(dataset: DatasetFolder, alone: RankContext, wrapper: str) -> None:
    rate = 1e-4
    config = resolve(dataset, RunFolder(Path("unused")), weight_decay=0.1, **WRAPPERS[wrapper])
    data = TrainingData.open(config)
    engine, model = build_engine(config, Architecture.from_config(config), alone)
    state = open_engine(engine, model)
    assert not any(state.optimizer.state.values()), "a step was taken before the first"
    before = [held.tensor.detach().clone() for held in state.held]
    run_step(engine, data.train_batches(config, alone, 0), lr=rate, context=alone)
    for held, old in zip(state.held, before, strict=True):
        moved = held.tensor.detach() - old
        # Adam's first step is as long as the rate wherever there is a gradient, and decay 0.1 adds 0.1 of the weight.
        assert float(moved.abs().max()) == pytest.approx(rate, rel=0.15)
        assert float(moved[moved.abs() > rate / 2].abs().median()) == pytest.approx(rate, rel=0.02)
    weights = torch.cat([weight.detach().float().flatten() for weight in model.parameters()])
    assert torch.isfinite(weights).all()
