"""``te_mha``: attention with its norm by Transformer Engine."""

from __future__ import annotations

from functools import cache
from typing import Any

import torch
from torch import nn

from neox_train.config.architecture import Architecture
from neox_train.model.heads import split_heads
from neox_train.model.rotary import RotaryTables
from neox_train.model.te import import_te, te_normalization
from neox_train.model.te_adopt import Adopter, Weights


class TEMultiheadAttention(Adopter):
    """Norm with query-key-value projection, attention and output projection, each one fused module.

    Its parameters appear in the block: ``norm`` and the two projections hold the same tensors as the plain layers.
    """

    def __init__(self, architecture: Architecture) -> None:
        super().__init__()
        te = import_te()
        a = architecture
        self._head_dim = a.head_dim
        self._queries_per_group = a.num_attention_heads // a.num_kv_heads
        projection: Any = self.adopt(
            "query_key_value",
            te.LayerNormLinear(
                a.hidden_size,
                a.qkv_rows,
                eps=a.norm_epsilon,
                bias=a.attention_bias,
                normalization=te_normalization(a),
                params_dtype=torch.float32,
            ),
        )
        self.adopt(
            "core",
            te.DotProductAttention(
                a.num_attention_heads,
                a.head_dim,
                num_gqa_groups=a.num_kv_heads,
                attention_dropout=a.attention_dropout,
                qkv_format="bshd",
                attn_mask_type="causal",
            ),
        )
        dense: Any = self.adopt(
            "dense", te.Linear(a.hidden_size, a.hidden_size, bias=a.attention_bias, params_dtype=torch.float32)
        )
        self.query_key_value = Weights(projection.weight, projection.bias if a.attention_bias else None)
        self.dense = Weights(dense.weight, dense.bias if a.attention_bias else None)

    def norm(self) -> nn.Module:
        """The parameters of the norm, for the block's ``input_layernorm``."""
        projection = self.__dict__["inner"]["query_key_value"]
        return Weights(projection.layer_norm_weight, getattr(projection, "layer_norm_bias", None))

    def forward(self, hidden: torch.Tensor, rotary: RotaryTables | None) -> torch.Tensor:
        """Map the residual stream [batch, sequence, hidden], before its norm, to the same shape."""
        inner = self.__dict__["inner"]
        batch, sequence, _ = hidden.shape
        projected = inner["query_key_value"](hidden)
        groups = projected.view(batch, sequence, -1, self._queries_per_group + 2, self._head_dim)
        queries, keys, values = _compiled_split()(groups, rotary)
        context = inner["core"](queries, keys, values)
        attended: torch.Tensor = inner["dense"](context.reshape(batch, sequence, -1))
        return attended


@cache
def _compiled_split() -> Any:
    return torch.compile(split_heads, fullgraph=True, dynamic=False)
