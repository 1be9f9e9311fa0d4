"""The feed-forward half of a block, plain or gated."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
import torch.nn.functional as F
from torch import nn

from neox_train.config.architecture import Architecture
from neox_train.errors import NotBuiltError
from neox_train.model.layers import LayerFactory

Activation = Callable[[torch.Tensor], torch.Tensor]


def _square_relu(features: torch.Tensor) -> torch.Tensor:
    return F.relu(features).square()


def _pass(features: torch.Tensor) -> torch.Tensor:
    return features


PLAIN_ACTIVATIONS: dict[str, Activation] = {
    "gelu": F.gelu,
    "gelu_tanh": partial(F.gelu, approximate="tanh"),
    "relu": F.relu,
    "squared_relu": _square_relu,
    "silu": F.silu,
    "swish": F.silu,
    "mish": F.mish,
    "softsign": F.softsign,
}
"""Activation functions of an MLP with one input projection."""

GATE_ACTIVATIONS: dict[str, Activation] = {
    "geglu": F.gelu,
    "swiglu": F.silu,
    "reglu": F.relu,
    "glu": torch.sigmoid,
    "bilinear": _pass,
}
"""What a gated MLP applies to the gate before it multiplies the up projection."""


class MLP(nn.Module):
    """``linear2(activation(linear1(x)))``, or ``linear2(activation(gate) * up)`` with gate and up from ``linear1``."""

    def __init__(self, architecture: Architecture, layers: LayerFactory) -> None:
        super().__init__()
        a = architecture
        self._gated = a.is_gated
        table = GATE_ACTIVATIONS if a.is_gated else PLAIN_ACTIVATIONS
        if a.activation not in table:
            known = ", ".join((*PLAIN_ACTIVATIONS, *GATE_ACTIVATIONS))
            raise NotBuiltError(f"activation: {a.activation!r} is not built here; choose one of {known}")
        self._activation = table[a.activation]
        rows = 2 * a.ffn_width if a.is_gated else a.ffn_width
        self.linear1 = layers.column_linear(a.hidden_size, rows, bias=a.mlp_bias)
        self.linear2 = layers.row_linear(a.ffn_width, a.hidden_size, bias=a.mlp_bias)

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        """Map [..., hidden] to the same shape."""
        features = self.linear1(hidden)
        if self._gated:
            gate, up = features.chunk(2, dim=-1)
            return self.linear2(self._activation(gate) * up)
        return self.linear2(self._activation(features))
