from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch

from neox_train.config.architecture import GATED_ACTIVATIONS
from neox_train.model.layers import LocalLayers
from neox_train.model.mlp import GATE_ACTIVATIONS, MLP, PLAIN_ACTIVATIONS
from tests.model.architectures import make_architecture

FORMULAS: dict[str, Callable[[float], float]] = {
    "gelu": lambda x: 0.5 * x * (1 + math.erf(x / math.sqrt(2))),
    "gelu_tanh": lambda x: 0.5 * x * (1 + math.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))),
    "relu": lambda x: max(x, 0.0),
    "squared_relu": lambda x: max(x, 0.0) ** 2,
    "silu": lambda x: x / (1 + math.exp(-x)),
    "swish": lambda x: x / (1 + math.exp(-x)),
    "mish": lambda x: x * math.tanh(math.log1p(math.exp(x))),
    "softsign": lambda x: x / (1 + abs(x)),
    "geglu": lambda x: 0.5 * x * (1 + math.erf(x / math.sqrt(2))),
    "swiglu": lambda x: x / (1 + math.exp(-x)),
    "reglu": lambda x: max(x, 0.0),
    "glu": lambda x: 1 / (1 + math.exp(-x)),
    "bilinear": lambda x: x,
}


@pytest.mark.parametrize("name", FORMULAS)
def test_activations_follow_their_formulas(name: str) -> None:
    function = (PLAIN_ACTIVATIONS | GATE_ACTIVATIONS)[name]
    points = torch.linspace(-4, 4, 33)
    wanted = torch.tensor([FORMULAS[name](float(x)) for x in points])
    assert torch.allclose(function(points), wanted, atol=1e-5)


def test_every_activation_has_a_formula_and_the_gated_list_agrees() -> None:
    assert set(FORMULAS) == set(PLAIN_ACTIVATIONS) | set(GATE_ACTIVATIONS)
    assert set(GATE_ACTIVATIONS) == set(GATED_ACTIVATIONS)


def test_the_gate_is_the_first_half_of_the_rows() -> None:
    mlp = MLP(make_architecture(activation="swiglu"), LocalLayers())
    for parameter in mlp.parameters():
        torch.nn.init.normal_(parameter, 0.0, 0.2, generator=torch.Generator().manual_seed(2))
    hidden = torch.randn(3, 64)
    gate = hidden @ mlp.linear1.weight[:80].T + mlp.linear1.bias[:80]
    up = hidden @ mlp.linear1.weight[80:].T + mlp.linear1.bias[80:]
    wanted = (torch.nn.functional.silu(gate) * up) @ mlp.linear2.weight.T + mlp.linear2.bias
    assert torch.allclose(mlp(hidden), wanted, atol=1e-4)
