"""Initial values of every parameter against GPT-NeoX's formulas: each method, each architecture, each shard."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import nn

from neox_train.config.architecture import Architecture
from neox_train.config.parameters import Parameter, list_parameters
from neox_train.model.gpt_neox import GPTNeoX
from neox_train.model.initialisation import initialise
from neox_train.model.parallel.cutting import join
from neox_train.model.parallel.group import TensorGroup
from neox_train.model.parallel.layers import ParallelLayers
from tests.model.architectures import make_architecture

LAYERS, WIDTH = 2, 64
METHODS = {
    "normal": lambda rows, columns: 0.05,
    "scaled_normal": lambda rows, columns: 0.05 / math.sqrt(2 * LAYERS),
    "single_residual_scaled_normal": lambda rows, columns: 0.05 / math.sqrt(LAYERS),
    "small_init": lambda rows, columns: math.sqrt(2 / (5 * WIDTH)),
    "wang_init": lambda rows, columns: 2 / (LAYERS * math.sqrt(WIDTH)),
    "xavier_uniform": lambda rows, columns: math.sqrt(2 / (rows + columns)),
    "xavier_normal": lambda rows, columns: math.sqrt(2 / (rows + columns)),
    "orthogonal": lambda rows, columns: math.sqrt(2 / max(rows, columns)),
    "scaled_orthogonal": lambda rows, columns: math.sqrt(2 / LAYERS / max(rows, columns)),
}
"""Root mean square of a matrix of that many rows and columns."""
ARCHITECTURES: dict[str, dict[str, Any]] = {
    "plain, untied": {},
    "gated, grouped queries, tied": {"activation": "swiglu", "num_kv_heads": 2, "tied_embeddings": True},
    "one key-value head, RMS norms, no biases": {
        "num_kv_heads": 1,
        "norm": "rmsnorm",
        "attention_bias": False,
        "mlp_bias": False,
    },
    "QK norm, learned positions": {"qk_norm": True, "pos_emb": "learned"},
    "tied parallel residual, no norms to learn": {"residual": "parallel_tied", "norm": "non_parametric_layernorm"},
    "muP": {"mup_width": 4.0, "mup_init_scale": 0.5, "pos_emb": "learned"},
}


def make(method: str, output_method: str, changes: dict[str, Any]) -> Architecture:
    return make_architecture(
        num_layers=LAYERS,
        hidden_size=WIDTH,
        ffn_width=192,
        vocab_size=500,
        padded_vocab_size=512,
        max_position_embeddings=128,
        init_method=method,
        output_layer_init_method=output_method,
        init_method_std=0.05,
        **changes,
    )


def expect(parameter: Parameter, a: Architecture) -> float:
    """The root mean square that upstream's rules give a matrix."""
    is_output = parameter.name.endswith(("attention.dense.weight", "mlp.linear2.weight"))
    method = a.output_layer_init_method if is_output else a.init_method
    rows = a.vocab_size if parameter.is_vocabulary else parameter.shape[0]
    scale = 1.0
    if a.mup_width:
        scale = 0.5 / (math.sqrt(4.0) if parameter.name.startswith("layers.") else 1.0)
    return scale * METHODS[method](rows, parameter.shape[1])


def check(values: dict[str, torch.Tensor], a: Architecture) -> None:
    table = list_parameters(a)
    assert values.keys() == {parameter.name for parameter in table}
    for parameter in table:
        value = values[parameter.name]
        if parameter.name.endswith(".bias"):
            assert not value.any(), parameter.name
        elif "norm" in parameter.name:
            assert torch.equal(value, torch.ones(parameter.shape)), parameter.name
        else:
            drawn = value[: a.vocab_size] if parameter.is_vocabulary else value
            assert not parameter.is_vocabulary or not value[a.vocab_size :].any()
            tolerance = 5 / math.sqrt(2 * drawn.numel())
            assert float(drawn.square().mean().sqrt()) == pytest.approx(expect(parameter, a), rel=tolerance)
            assert abs(float(drawn.mean())) < 5 * expect(parameter, a) / math.sqrt(drawn.numel()), parameter.name


@pytest.mark.parametrize("name", ARCHITECTURES)
@pytest.mark.parametrize("method", METHODS)
def test_every_parameter_follows_its_formula_whole_and_in_shards(method: str, name: str) -> None:
    others = list(METHODS)
    architecture = make(method, others[(others.index(method) + 1) % len(others)], ARCHITECTURES[name])
    whole = take(GPTNeoX(architecture), architecture)
    check(whole, architecture)
    if architecture.qk_norm or architecture.num_kv_heads % 2:
        return
    shards = [
        take(
            GPTNeoX(architecture, layers=ParallelLayers(TensorGroup(rank=rank, size=2), sequence_parallel=False)),
            architecture,
            tensor_rank=rank,
            tensor_size=2,
        )
        for rank in range(2)
    ]
    for parameter in list_parameters(architecture):
        name = parameter.name
        own = [shard[name] for shard in shards]
        assert torch.equal(join(own, dim=parameter.shard_dim, parts=parameter.shard_parts), whole[name]), name
        if parameter.shard_dim is not None:
            assert own[0].shape[parameter.shard_dim] * 2 == parameter.shape[parameter.shard_dim]


def take(model: nn.Module, architecture: Architecture, **shard: int) -> dict[str, torch.Tensor]:
    initialise(model, architecture, 1234, **shard)
    return {name: parameter.detach() for name, parameter in model.named_parameters()}
