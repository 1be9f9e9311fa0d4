from typing import Any

import pytest

from neox_train.config.architecture import Architecture
from neox_train.config.layout import DatasetFolder, RunFolder
from neox_train.training.dataset import TrainingData
from neox_train.training.distributed import RankContext
from neox_train.training.engine import build_engine, describe_precision
from neox_train.training.step import measure_validation_loss, run_step
from neox_train.training.stop import request_stop
from tests.training.synthetic import resolve


def train(dataset: DatasetFolder, alone: RankContext, steps: int = 6, **changes: Any) -> list[float]:
    config = resolve(dataset, RunFolder("unused"), **changes)
    engine, _ = build_engine(config, Architecture.from_config(config), alone)
    batches = TrainingData.open(config).train_batches(config, alone, 0)
    return [run_step(engine, batches, lr=1e-3, context=alone).loss for _ in range(steps)]


def test_two_trainings_agree_bit_for_bit(dataset: DatasetFolder, alone: RankContext) -> None:
    assert train(dataset, alone) == train(dataset, alone)


@pytest.mark.parametrize("stage", [0, 1, 3])
def test_accumulation_does_not_change_the_losses(stage: int, dataset: DatasetFolder, alone: RankContext) -> None:
    zero = {"stage": stage}
    whole = train(dataset, alone, train_micro_batch_size_per_gpu=4, zero_optimization=zero)
    parts = train(
        dataset, alone, train_micro_batch_size_per_gpu=1, gradient_accumulation_steps=4, zero_optimization=zero
    )
    assert parts == pytest.approx(whole, abs=1e-5)
    assert whole[-1] < whole[0] - 0.2


def test_recomputed_activations_change_nothing(dataset: DatasetFolder, alone: RankContext) -> None:
    assert train(dataset, alone, checkpoint_activations=True) == train(dataset, alone)


def test_validation_draws_no_random_number_and_repeats(dataset: DatasetFolder, alone: RankContext) -> None:
    config = resolve(dataset, RunFolder("unused"), hidden_dropout=0.1, attention_dropout=0.1, eval_iters=3)
    data = TrainingData.open(config)

    def losses(validates: bool) -> tuple[list[float], list[float]]:
        engine, _ = build_engine(config, Architecture.from_config(config), alone)
        batches = data.train_batches(config, alone, 0)
        trained, validated = [], []
        for _ in range(3):
            trained.append(run_step(engine, batches, lr=1e-3, context=alone).loss)
            if validates:
                measured = [
                    measure_validation_loss(engine, data.validation_batches(config, alone), alone) for _ in range(2)
                ]
                assert measured[0] == measured[1]
                validated.append(measured[0])
        return trained, validated

    with_validation, validated = losses(validates=True)
    assert with_validation == losses(validates=False)[0]
    assert validated[2] < validated[0]


def test_a_request_to_stop_is_seen_at_the_step_boundary(dataset: DatasetFolder, alone: RankContext) -> None:
    config = resolve(dataset, RunFolder("unused"))
    engine, _ = build_engine(config, Architecture.from_config(config), alone)
    batches = TrainingData.open(config).train_batches(config, alone, 0)
    assert not run_step(engine, batches, lr=1e-3, context=alone).stop
    request_stop("the wall is near")
    assert run_step(engine, batches, lr=1e-3, context=alone).stop


@pytest.mark.parametrize(
    ("changes", "gemms", "accumulation", "communication"),
    [
        ({}, "float32", "float32", "float32"),
        ({"precision": "bfloat16", "zero_optimization": {"stage": 1}}, "bfloat16", "float32", "bfloat16"),
        (
            {"precision": "bfloat16", "zero_optimization": {"stage": 2}, "fp32_allreduce": True},
            "bfloat16",
            "float32",
            "float32",
        ),
    ],
)
def test_the_head_of_the_log_states_the_types_in_use(
    changes: dict[str, Any],
    gemms: str,
    accumulation: str,
    communication: str,
    dataset: DatasetFolder,
    alone: RankContext,
) -> None:
    config = resolve(dataset, RunFolder("unused"), **changes)
    engine, model = build_engine(config, Architecture.from_config(config), alone)
    assert str(next(model.parameters()).dtype) == f"torch.{gemms}"
    assert describe_precision(engine) == (
        f"precision: GEMMs {gemms}, master weights float32, "
        f"gradient accumulation {accumulation}, communication {communication}"
    )
