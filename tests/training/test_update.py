from typing import Any

import pytest
import torch

from neox_train.checkpoint.engine_state import open_engine
from neox_train.config.architecture import Architecture
from neox_train.config.layout import DatasetFolder, RunFolder
from neox_train.training import engine as engine_module
from neox_train.training import step
from neox_train.training.dataset import TrainingData
from neox_train.training.distributed import RankContext
from neox_train.training.engine import build_engine
from tests.training.synthetic import resolve

SGD: dict[str, Any] = {
    "optimizer": {"type": "SGD", "params": {"lr": 1.0}},
    "lr_decay_style": "constant",
    "warmup": 0.0,
    "weight_decay": 0.0,
    "gradient_clipping": 0.001,
    "min_lr": 0.0,
}
ENGINES: dict[str, dict[str, Any]] = {
    "fp32": {},
    "fp32-zero1": {"zero_optimization": {"stage": 1}},
    "fp32-zero2": {"zero_optimization": {"stage": 2}},
    "fp32-zero3": {"zero_optimization": {"stage": 3}},
    "bf16": {"precision": "bfloat16"},
    "fp16": {"precision": "fp16", "fp16": {"enabled": True, "loss_scale": 128}},
    "bf16-zero1": {"zero_optimization": {"stage": 1}, "precision": "bfloat16"},
    "bf16-zero2": {"zero_optimization": {"stage": 2}, "precision": "bfloat16"},
    "bf16-zero3": {"zero_optimization": {"stage": 3}, "precision": "bfloat16"},
}


@pytest.fixture(autouse=True)
def fp16_on_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """A model this small trains in fp16 on a CPU too, which is refused to users."""
    from deepspeed.accelerator import get_accelerator

    monkeypatch.setattr(engine_module, "_refuse_fp16_on_cpu", lambda *_: None)
    monkeypatch.setattr(get_accelerator(), "is_fp16_supported", lambda: True)


def prepare(dataset: DatasetFolder, alone: RankContext, **changes: Any) -> tuple[Any, Any, Any]:
    config = resolve(dataset, RunFolder("unused"), **changes)
    engine, model = build_engine(config, Architecture.from_config(config), alone)
    return engine, model, TrainingData.open(config).train_batches(config, alone, 0)


def flatten(model: torch.nn.Module) -> torch.Tensor:
    return torch.cat([whole(parameter).double().flatten() for parameter in model.parameters()])


def whole(parameter: torch.nn.Parameter) -> torch.Tensor:
    """The weight as the forward pass uses it; ZeRO 3 keeps it in parts between steps."""
    import deepspeed

    with deepspeed.zero.GatheredParameters([parameter], enabled=hasattr(parameter, "ds_id")):
        return parameter.detach().clone()


@pytest.mark.parametrize("stage", [0, 1, 2, 3])
def test_clipping_really_clips_the_first_update(stage: int, dataset: DatasetFolder, alone: RankContext) -> None:
    engine, model, batches = prepare(dataset, alone, zero_optimization={"stage": stage}, **SGD)
    before = flatten(model)
    result = step.run_step(engine, batches, lr=1.0, context=alone)
    assert result.update.grad_norm > 0.1
    assert float((flatten(model) - before).norm()) == pytest.approx(0.001, rel=0.01)


@pytest.mark.parametrize("changes", ENGINES.values(), ids=ENGINES.keys())
def test_the_reported_norm_is_that_of_the_gradient_before_clipping(
    changes: dict[str, Any], dataset: DatasetFolder, alone: RankContext
) -> None:
    engine, model, batches = prepare(dataset, alone, gradient_clipping=0.001, **changes)
    batch = next(batches)
    plain = type(model)(model.architecture)
    plain.load_state_dict({name: whole(value).float() for name, value in model.named_parameters()}, strict=False)
    plain.loss(torch.from_numpy(batch)).backward()
    expected = torch.nn.utils.get_total_norm([parameter.grad for parameter in plain.parameters()])
    result = step.run_step(engine, iter([batch]), lr=0.0, context=alone)
    tolerance = 2e-2 if "precision" in changes else 1e-5
    assert result.update.grad_norm == pytest.approx(float(expected), rel=tolerance)


@pytest.mark.parametrize("changes", ENGINES.values(), ids=ENGINES.keys())
def test_a_gradient_that_is_not_finite_changes_nothing_and_the_next_step_goes_on(
    changes: dict[str, Any], dataset: DatasetFolder, alone: RankContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine, model, batches = prepare(
        dataset, alone, train_micro_batch_size_per_gpu=2, gradient_accumulation_steps=2, **changes
    )
    step.run_step(engine, batches, lr=1e-3, context=alone)
    before, honest = flatten(model), step.forward_loss
    with monkeypatch.context() as patch:
        patch.setattr(step, "forward_loss", lambda *arguments: honest(*arguments) * float("nan"))
        skipped = step.run_step(engine, batches, lr=1e-3, context=alone)
    assert not skipped.update.applied
    assert torch.equal(flatten(model), before)
    after = step.run_step(engine, batches, lr=1e-3, context=alone)
    assert after.update.applied
    assert bool(torch.isfinite(flatten(model)).all()) and not torch.equal(flatten(model), before)


def test_a_dynamic_loss_scale_falls_to_where_gradients_are_finite_and_reaches_every_gradient(
    dataset: DatasetFolder, alone: RankContext
) -> None:
    fp16 = {"enabled": True, "loss_scale": 0, "initial_scale_power": 20}
    scaled, _, batches = prepare(dataset, alone, precision="fp16", fp16=fp16)
    plain, _, same_batches = prepare(dataset, alone)
    made = [step.run_step(scaled, batches, lr=0.0, context=alone).update for _ in range(8)]
    wanted = [step.run_step(plain, same_batches, lr=0.0, context=alone).update for _ in range(8)]
    skipped = [update.applied for update in made].index(True)
    assert skipped > 0 and all(update.applied for update in made[skipped:])
    scales = [update.loss_scale for update in made]
    assert scales == [2.0 ** (20 - min(index, skipped)) for index in range(8)]
    norms = [update.grad_norm for update in wanted[skipped:]]
    assert [update.grad_norm for update in made[skipped:]] == pytest.approx(norms, rel=2e-2)


@pytest.mark.parametrize("stage", [0, 1, 2])
def test_bfloat16_gradients_of_several_micro_batches_add_up_in_fp32(
    stage: int, dataset: DatasetFolder, alone: RankContext
) -> None:
    """SGD's first step moves the master weights by the sums."""
    keys: dict[str, Any] = {
        **SGD,
        "gradient_clipping": 0.0,
        "precision": "bfloat16",
        "train_micro_batch_size_per_gpu": 2,
        "gradient_accumulation_steps": 8,
        "zero_optimization": {"stage": stage},
    }
    moved = {}
    for kind in ("fp32", "bf16"):
        engine, model, batches = prepare(dataset, alone, data_types={"grad_accum_dtype": kind}, **keys)
        held = open_engine(engine, model).held
        before = [one.tensor.detach().clone() for one in held]
        step.run_step(engine, batches, lr=1.0, context=alone)
        moved[kind] = torch.cat([(one.tensor.detach() - old).flatten() for one, old in zip(held, before, strict=True)])
    # The last rounding, for the wire, is alike.
    assert float((moved["bf16"] - moved["fp32"]).norm() / moved["fp32"].norm()) > 1e-4


def test_the_log_names_the_format_of_sums(dataset: DatasetFolder, alone: RankContext) -> None:
    keys = {"precision": "bfloat16", "train_micro_batch_size_per_gpu": 2, "gradient_accumulation_steps": 4}
    engine, _, _ = prepare(dataset, alone, **keys)
    assert "gradient accumulation float32" in engine_module.describe_precision(engine)
