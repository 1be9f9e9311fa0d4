"""Transformer Engine against the plain layers on a GPU: losses, names, checkpoints, and FP8 that really runs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from neox_train.checkpoint.reader import restore_checkpoint
from neox_train.checkpoint.state import TrainerState
from neox_train.checkpoint.writer import save_checkpoint
from neox_train.config.architecture import Architecture
from neox_train.config.layout import DatasetFolder, RunFolder
from neox_train.config.parameters import list_parameters
from neox_train.errors import ConfigError
from neox_train.model.parallel.group import TensorGroup
from neox_train.training.dataset import TrainingData
from neox_train.training.distributed import RankContext
from neox_train.training.engine import build_engine
from neox_train.training.fp8_state import capture_fp8_state, restore_fp8_state
from neox_train.training.step import run_step
from neox_train.training.transformer_engine import choose_layers, prove_fp8
from tests.training.synthetic import resolve

MODEL: dict[str, Any] = {
    "hidden_size": 256,
    "num_attention_heads": 4,
    "num_layers": 3,
    "seq_length": 128,
    "max_position_embeddings": 128,
    "train_micro_batch_size_per_gpu": 4,
    "precision": "bfloat16",
    "bias_gelu_fusion": True,
    "zero_optimization": {"stage": 1},
}
BOTH: dict[str, Any] = {"te_mha": True, "te_layernorm_mlp": True}
ALL: dict[str, Any] = {**BOTH, "te_columnparallel": True, "te_rowparallel": True, "norm": "te_layernorm"}
STEPS = 40


def build(dataset: DatasetFolder, alone: RankContext, **changes: Any) -> tuple[Any, Any, Any]:
    config = resolve(dataset, RunFolder("unused"), **{**MODEL, **changes})
    engine, model = build_engine(config, Architecture.from_config(config), alone)
    return config, engine, model


def train(dataset: DatasetFolder, alone: RankContext, **changes: Any) -> tuple[list[float], Any, Any]:
    config, engine, model = build(dataset, alone, **changes)
    batches = TrainingData.open(config).train_batches(config, alone, 0)
    losses = [run_step(engine, batches, lr=1e-3, context=alone).loss for _ in range(STEPS)]
    return losses, model, config


@pytest.mark.gpu
@pytest.mark.parametrize(
    "changes",
    [
        {"te_mha": True},
        {"te_layernorm_mlp": True},
        {"te_columnparallel": True, "te_rowparallel": True},
        {"norm": "te_layernorm"},
        ALL,
        {**BOTH, "norm": "te_rmsnorm", "activation": "swiglu", "intermediate_size": 768, "num_kv_heads": 2},
        {**BOTH, "gpt_j_residual": True, "use_bias_in_attn_linear": False, "rotary_pct": 0.25},
        {**BOTH, "checkpoint_activations": True},
        {**BOTH, "precision": "fp16"},
    ],
)
def test_losses_are_those_of_the_plain_layers(
    changes: dict[str, Any], dataset: DatasetFolder, alone: RankContext
) -> None:
    plain = {name: value for name, value in changes.items() if not name.startswith("te_")}
    plain["norm"] = str(plain.get("norm", "layernorm")).removeprefix("te_")
    by_te, model, config = train(dataset, alone, **changes)
    reference, _, _ = train(dataset, alone, **plain)
    assert by_te == pytest.approx(reference, abs=0.03)
    assert by_te[-1] < by_te[0] - 0.3
    table = [entry.name for entry in list_parameters(Architecture.from_config(config))]
    assert sorted(name for name, _ in model.named_parameters()) == sorted(table)


@pytest.mark.gpu
@pytest.mark.parametrize(
    "switch",
    [
        {"te_fp8": True},
        {"te_fp8_recipe": "delayed", "te_fp8_amax_history_len": 16, "te_fp8_amax_compute_algo": "max"},
        {"te_fp8_recipe": "current"},
        {"te_fp8_recipe": "blockwise"},
        {"te_fp8": True, "checkpoint_activations": True},
        {"te_fp8": True, "precision": "fp16"},
    ],
)
def test_fp8_runs_and_learns_as_16_bits_do(switch: dict[str, Any], dataset: DatasetFolder, alone: RankContext) -> None:
    in_fp8, model, config = train(dataset, alone, **ALL, **switch)
    plain = {name: value for name, value in switch.items() if not name.startswith("te_")}
    reference, _, _ = train(dataset, alone, **ALL, **plain)
    assert in_fp8 != reference
    assert in_fp8 == pytest.approx(reference, abs=0.1)
    assert "all 9 Transformer Engine layers" in prove_fp8(model, config)


@pytest.mark.gpu
@pytest.mark.parametrize("beside", [{}, {"checkpoint_activations": True}, {"num_kv_heads": 1}])
def test_fp8_attention_learns_as_16_bits_do(beside: dict[str, Any], dataset: DatasetFolder, alone: RankContext) -> None:
    heads = {**BOTH, **beside, "num_attention_heads": 2}
    in_fp8, model, config = train(dataset, alone, **heads, te_fp8_mha=True)
    reference, _, _ = train(dataset, alone, **heads)
    only_products, _, _ = train(dataset, alone, **heads, te_fp8=True)
    print("fp8 attention", max(abs(a - b) for a, b in zip(in_fp8, reference, strict=True)), in_fp8[-1], reference[-1])
    assert in_fp8 not in (reference, only_products)
    assert in_fp8 == pytest.approx(reference, abs=0.1)
    assert "3 attentions" in prove_fp8(model, config)


@pytest.mark.gpu
def test_a_checkpoint_of_either_backend_resumes_in_the_other(
    dataset: DatasetFolder, alone: RankContext, tmp_path: Path
) -> None:
    digests = {"config": "c" * 64, "dataset": "d" * 64, "tokenizer": "t" * 64}
    for number, (writer, reader) in enumerate([(BOTH, {}), ({}, BOTH)]):
        config, engine, model = build(dataset, alone, **writer)
        batches = TrainingData.open(config).train_batches(config, alone, 0)
        for _ in range(3):
            run_step(engine, batches, lr=1e-3, context=alone)
        folder = save_checkpoint(
            tmp_path / str(number), engine=engine, model=model, config=config, trainer=TrainerState(), digests=digests
        )
        other_config, other_engine, other = build(dataset, alone, **reader)
        assert other_config.training_digest() == config.training_digest()
        restore_checkpoint(folder, engine=other_engine, model=other, config=other_config)
        saved = dict(model.named_parameters())
        assert all(torch.equal(saved[name], weight) for name, weight in other.named_parameters())
        batch = next(batches)
        losses = [run_step(one, iter([batch]), lr=1e-3, context=alone).loss for one in (engine, other_engine)]
        assert losses[0] == pytest.approx(losses[1], abs=0.02)


@pytest.mark.gpu
def test_delayed_scaling_goes_on_from_its_saved_scales(dataset: DatasetFolder, alone: RankContext) -> None:
    switch = {"te_fp8": True, "te_fp8_amax_history_len": 4, "te_fp8_amax_compute_algo": "max"}
    config, engine, model = build(dataset, alone, **BOTH, **switch)
    batches = TrainingData.open(config).train_batches(config, alone, 0)
    for _ in range(5):
        run_step(engine, batches, lr=1e-3, context=alone)
    saved = json.loads(json.dumps(capture_fp8_state(model)))
    assert any(scale != 1.0 for values in saved.values() for scale in values["scaling_fwd.scale"])
    _, _, other = build(dataset, alone, **BOTH, **switch)
    restore_fp8_state(other, saved, shape=(1, 128), device=alone.device)
    assert capture_fp8_state(other) == saved


@pytest.mark.skipif(torch.cuda.is_available(), reason="about a machine without a GPU")
def test_without_a_gpu_it_is_a_sentence(dataset: DatasetFolder, alone: RankContext) -> None:
    with pytest.raises(ConfigError, match="need a GPU, this machine has none"):
        choose_layers(resolve(dataset, RunFolder("unused"), **MODEL, **BOTH), TensorGroup(rank=0, size=1))
