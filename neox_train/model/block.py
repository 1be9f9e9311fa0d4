"""One transformer layer: attention and MLP around a serial, parallel or tied-parallel residual."""

from __future__ import annotations

import torch
from torch import nn

from neox_train.config.architecture import Architecture
from neox_train.model.attention import SelfAttention
from neox_train.model.dropout import HiddenDropout
from neox_train.model.layers import LayerFactory
from neox_train.model.mlp import MLP
from neox_train.model.rotary import RotaryTables


class Block(nn.Module):
    """Serial: the MLP reads what attention wrote. Parallel: both read the same input (tied: the same norm too)."""

    def __init__(self, architecture: Architecture, layers: LayerFactory, *, attention_kind: str) -> None:
        super().__init__()
        self.attention_kind = attention_kind
        self._residual = architecture.residual
        self.drop = HiddenDropout(architecture.hidden_dropout, layers.shared_random)
        self.input_layernorm = layers.norm(architecture)
        self.attention = SelfAttention(architecture, layers, kind=attention_kind)
        if architecture.residual != "parallel_tied":
            self.post_attention_layernorm = layers.norm(architecture)
        self.mlp = MLP(architecture, layers)

    def forward(
        self, hidden: torch.Tensor, rotary: RotaryTables | None, mask: torch.Tensor | None = None
    ) -> torch.Tensor:
        """Map [batch, sequence, hidden] to the same shape; ``mask`` as ``SelfAttention`` takes it."""
        normed = self.input_layernorm(hidden)
        attended = self.drop(self.attention(normed, rotary, mask))
        if self._residual == "serial":
            hidden = hidden + attended
            return hidden + self.drop(self.mlp(self.post_attention_layernorm(hidden)))
        if self._residual == "parallel":
            normed = self.post_attention_layernorm(hidden)
        return hidden + (self.drop(self.mlp(normed)) + attended)
