"""A transformer layer whose halves may be Transformer Engine's, under the same parameter names."""

from __future__ import annotations

import torch
from torch import nn

from neox_train.config.architecture import Architecture
from neox_train.errors import NotBuiltError
from neox_train.model.attention import SelfAttention
from neox_train.model.dropout import HiddenDropout
from neox_train.model.layers import LayerFactory
from neox_train.model.mlp import MLP
from neox_train.model.rotary import RotaryTables
from neox_train.model.te import leave_fp8
from neox_train.model.te_attention import TEMultiheadAttention
from neox_train.model.te_mlp import TELayerNormMLP
from neox_train.model.te_split import ALONE, TESplit


class TEBlock(nn.Module):
    """The arithmetic of ``Block``; a Transformer Engine half takes the residual stream and applies its own norm.

    With ``in_16_bits`` set the layer leaves the FP8 context that its stack runs in.
    """

    in_16_bits = False

    def __init__(
        self,
        architecture: Architecture,
        layers: LayerFactory,
        *,
        attention_kind: str,
        te_attention: bool,
        te_mlp: bool,
        split: TESplit = ALONE,
    ) -> None:
        super().__init__()
        if architecture.residual == "parallel_tied":
            raise NotBuiltError("gpt_j_tied is not built with Transformer Engine's halves, which have their own norms")
        self.attention_kind = attention_kind
        self._residual = architecture.residual
        self.drop = HiddenDropout(architecture.hidden_dropout, layers.shared_random)
        self._te_attention, self._te_mlp = te_attention, te_mlp
        # Registered in the order of the canonical table.
        if te_attention:
            attention = TEMultiheadAttention(architecture, layers, split)
            self.input_layernorm: nn.Module = attention.norm()
            self.attention: nn.Module = attention
        else:
            self.input_layernorm = layers.norm(architecture)
            self.attention = SelfAttention(architecture, layers, kind=attention_kind)
        if te_mlp:
            mlp = TELayerNormMLP(architecture, split)
            self.post_attention_layernorm: nn.Module = mlp.norm()
            self.mlp: nn.Module = mlp
        else:
            self.post_attention_layernorm = layers.norm(architecture)
            self.mlp = MLP(architecture, layers)

    def forward(
        self, hidden: torch.Tensor, rotary: RotaryTables | None, mask: torch.Tensor | None = None
    ) -> torch.Tensor:
        """Map [batch, sequence, hidden] to the same shape; ``mask`` as ``SelfAttention`` takes it."""
        if not self.in_16_bits:
            return self._run(hidden, rotary, mask)
        with leave_fp8():
            return self._run(hidden, rotary, mask)

    def _run(self, hidden: torch.Tensor, rotary: RotaryTables | None, mask: torch.Tensor | None) -> torch.Tensor:
        if self._te_attention:
            if mask is not None:
                raise ValueError("Transformer Engine's attention is causal here: it takes no mask")
            attended = self.drop(self.attention(hidden, rotary))
        else:
            attended = self.drop(self.attention(self.input_layernorm(hidden), rotary, mask))
        if self._residual == "serial":
            hidden = hidden + attended
            return hidden + self.drop(self._feed_forward(hidden))
        return hidden + (self.drop(self._feed_forward(hidden)) + attended)

    def _feed_forward(self, hidden: torch.Tensor) -> torch.Tensor:
        features: torch.Tensor = self.mlp(hidden if self._te_mlp else self.post_attention_layernorm(hidden))
        return features
