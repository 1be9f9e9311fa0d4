"""Flat master weights against DeepSpeed's own 16-bit training, and what a step with a bad gradient leaves behind."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
import torch

from neox_train.checkpoint.reader import restore_checkpoint
from neox_train.checkpoint.state import TrainerState
from neox_train.checkpoint.writer import save_checkpoint
from neox_train.config.architecture import Architecture
from neox_train.config.layout import DatasetFolder, RunFolder
from neox_train.errors import NotBuiltError
from neox_train.training.dataset import TrainingData
from neox_train.training.distributed import RankContext
from neox_train.training.engine import build_engine, describe_precision
from neox_train.training.flat_masters import FlatMasters
from neox_train.training.step import StepResult, run_step
from tests.training.synthetic import resolve

FLAT: dict[str, Any] = {"precision": "bfloat16", "flat_master_weights": True, "zero_optimization": {"stage": 1}}


def prepare(dataset: DatasetFolder, alone: RankContext, **changes: Any) -> tuple[Any, Any, Any]:
    config = resolve(dataset, RunFolder("unused"), **changes)
    engine, model = build_engine(config, Architecture.from_config(config), alone)
    return engine, model, TrainingData.open(config).train_batches(config, alone, 0)


def train(dataset: DatasetFolder, alone: RankContext, steps: int = 8, **changes: Any) -> list[StepResult]:
    engine, _, batches = prepare(dataset, alone, **changes)
    return [run_step(engine, batches, lr=1e-3, context=alone) for _ in range(steps)]


@pytest.mark.parametrize(
    "changes",
    [{}, {"gradient_accumulation_steps": 2}, {"zero_optimization": {"stage": 0}}, {"use_bnb_optimizer": True}],
)
def test_the_losses_are_those_of_deepspeeds_own_16_bit_training(
    changes: dict[str, Any], dataset: DatasetFolder, alone: RankContext
) -> None:
    flat = train(dataset, alone, **{**FLAT, **changes})
    reference = train(
        dataset, alone, **{**FLAT, **changes, "flat_master_weights": False, "zero_optimization": {"stage": 1}}
    )
    assert [step.loss for step in flat] == pytest.approx([step.loss for step in reference], abs=0.01)
    assert [step.update.grad_norm for step in flat] == pytest.approx(
        [step.update.grad_norm for step in reference], rel=0.03
    )
    assert flat[-1].loss < flat[0].loss - 0.2


def test_clipping_really_clips_the_first_update(dataset: DatasetFolder, alone: RankContext) -> None:
    sgd_like = {"type": "Adam", "params": {"lr": 1.0, "betas": [0.0, 0.0], "eps": 1.0}}
    engine, _, batches = prepare(
        dataset, alone, **FLAT, optimizer=sgd_like, gradient_clipping=0.001, weight_decay=0.0, min_lr=0.0
    )
    masters = [group.master for group in engine.optimizer.flat_groups]
    before = torch.cat([master.detach().clone().double() for master in masters])
    result = run_step(engine, batches, lr=1.0, context=alone)
    assert result.update.grad_norm > 0.1
    moved = float((torch.cat([master.detach().double() for master in masters]) - before).norm())
    # Adam without memory and with an eps far above the clipped gradient moves by gradient / eps.
    assert moved == pytest.approx(0.001, rel=0.05)


@pytest.mark.parametrize("eight_bit", [False, True])
def test_a_gradient_that_is_not_finite_changes_nothing(
    eight_bit: bool, dataset: DatasetFolder, alone: RankContext
) -> None:
    engine, model, batches = prepare(dataset, alone, **FLAT, use_bnb_optimizer=eight_bit)
    run_step(engine, batches, lr=1e-3, context=alone)
    poison = model.final_norm.weight.register_hook(lambda gradient: gradient * math.nan)
    before = snapshot(engine.optimizer, model)
    result = run_step(engine, batches, lr=1e-3, context=alone)
    poison.remove()
    assert not result.update.applied and not math.isfinite(result.update.grad_norm)
    assert engine.skipped_steps == 1
    after = snapshot(engine.optimizer, model)
    assert before.keys() == after.keys()
    assert all(torch.equal(before[name], after[name]) for name in before)
    assert run_step(engine, batches, lr=1e-3, context=alone).update.applied
    assert not torch.equal(snapshot(engine.optimizer, model)["master 0"], before["master 0"])


def snapshot(optimizer: FlatMasters, model: torch.nn.Module) -> dict[str, torch.Tensor]:
    taken = {name: weight.detach().clone() for name, weight in model.named_parameters()}
    for index, group in enumerate(optimizer.flat_groups):
        taken[f"master {index}"] = group.master.detach().clone()
        state = optimizer.base.state[group.master]
        taken |= {f"{name} {index}": value.clone() for name, value in state.items() if torch.is_tensor(value)}
    return taken


def test_a_parameter_that_no_micro_batch_reached_has_a_gradient_of_zero(
    dataset: DatasetFolder, alone: RankContext
) -> None:
    engine, _, batches = prepare(dataset, alone, **FLAT, weight_decay=0.0)
    run_step(engine, batches, lr=0.0, context=alone)
    optimizer: FlatMasters = engine.optimizer
    assert all(float(group.gradients.float().norm()) > 0 for group in optimizer.flat_groups)
    optimizer.step()
    assert all(float(group.gradients.float().norm()) == 0 for group in optimizer.flat_groups)
    assert float(optimizer.grad_norm) == 0.0


def test_weights_are_views_of_one_buffer_in_16_bits(dataset: DatasetFolder, alone: RankContext) -> None:
    engine, model, _ = prepare(dataset, alone, **FLAT)
    starts = {group.weights.untyped_storage().data_ptr() for group in engine.optimizer.flat_groups}
    assert {weight.untyped_storage().data_ptr() for weight in model.parameters()} == starts
    assert {weight.dtype for weight in model.parameters()} == {torch.bfloat16}
    assert describe_precision(engine) == (
        "precision: GEMMs bfloat16, master weights float32, gradient accumulation bfloat16, communication bfloat16"
    )


@pytest.mark.parametrize("stage", [0, 1])
def test_a_restored_training_goes_on_bit_for_bit_and_in_deepspeeds_own_wrapper_too(
    stage: int, dataset: DatasetFolder, alone: RankContext, tmp_path: Path
) -> None:
    changes = {**FLAT, "zero_optimization": {"stage": stage}}
    engine, model, batches = prepare(dataset, alone, **changes)
    for _ in range(3):
        run_step(engine, batches, lr=1e-3, context=alone)
    config = resolve(dataset, RunFolder("unused"), **changes)
    digests = {"config": "c" * 64, "dataset": "d" * 64, "tokenizer": "t" * 64}
    folder = save_checkpoint(
        tmp_path, engine=engine, model=model, config=config, trainer=TrainerState(), digests=digests
    )
    further = [next(batches) for _ in range(3)]
    unbroken = [run_step(engine, iter([batch]), lr=1e-3, context=alone).loss for batch in further]
    resumed, restored, _ = prepare(dataset, alone, **changes)
    restore_checkpoint(folder, engine=resumed, model=restored, config=config)
    assert [run_step(resumed, iter([batch]), lr=1e-3, context=alone).loss for batch in further] == unbroken
    other, plain, _ = prepare(dataset, alone, **{**changes, "flat_master_weights": False})
    restore_checkpoint(folder, engine=other, model=plain, config=config)
    losses = [run_step(other, iter([batch]), lr=1e-3, context=alone).loss for batch in further]
    assert losses == pytest.approx(unbroken, abs=0.01)


def test_several_micro_batches_accumulate_in_fp32(dataset: DatasetFolder, alone: RankContext) -> None:
    engine, _, _ = prepare(dataset, alone, **FLAT, gradient_accumulation_steps=2)
    assert "gradient accumulation float32" in describe_precision(engine)


@pytest.mark.parametrize(
    "changes",
    [{"precision": "fp32"}, {"zero_optimization": {"stage": 2}}, {"optimizer": {"type": "SGD", "params": {}}}],
)
def test_what_it_does_not_cover_is_refused(changes: dict[str, Any], dataset: DatasetFolder, alone: RankContext) -> None:
    with pytest.raises(NotBuiltError, match="flat_master_weights: true is not built with"):
        prepare(dataset, alone, **{**FLAT, **changes})
