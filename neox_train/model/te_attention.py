"""``te_mha``: attention with its norm by Transformer Engine."""

from __future__ import annotations

from contextlib import nullcontext
from functools import cache
from typing import Any

import torch

from neox_train.config.architecture import Architecture
from neox_train.model.heads import split_heads
from neox_train.model.layers import LayerFactory
from neox_train.model.rotary import RotaryTables
from neox_train.model.te import import_te, te_normalization
from neox_train.model.te_adopt import Adopter, Weights
from neox_train.model.te_split import TESplit


class TEMultiheadAttention(Adopter):
    """Norm with query-key-value projection, attention and output projection, each one fused module.

    Its parameters appear in the block: ``norm`` and the two projections hold the same tensors as the plain layers.
    """

    def __init__(self, architecture: Architecture, layers: LayerFactory, split: TESplit) -> None:
        super().__init__()
        te = import_te()
        a = architecture
        size = split.group.size
        self._split, self._random, self._dropout = split, layers.cut_random, a.attention_dropout
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
                parallel_mode="column" if size > 1 else None,
                **split.arguments,
            ),
        )
        self.adopt(
            "core",
            te.DotProductAttention(
                a.num_attention_heads // size,
                a.head_dim,
                num_gqa_groups=a.num_kv_heads // size,
                attention_dropout=a.attention_dropout,
                qkv_format="bshd",
                attn_mask_type="causal",
            ),
        )
        dense: Any = self.adopt(
            "dense",
            te.Linear(
                a.hidden_size,
                a.hidden_size,
                bias=a.attention_bias,
                params_dtype=torch.float32,
                parallel_mode="row" if size > 1 else None,
                **split.arguments,
            ),
        )
        self.query_key_value = Weights(projection.weight, projection.bias if a.attention_bias else None)
        self.dense = Weights(dense.weight, dense.bias if a.attention_bias else None)
        norm = self.norm()
        split.mark(
            cut=(self.query_key_value.weight, self.query_key_value.bias, self.dense.weight),
            shared=(norm.weight, norm.bias, self.dense.bias),
        )

    def norm(self) -> Weights:
        """The parameters of the norm, for the block's ``input_layernorm``."""
        projection = self.__dict__["inner"]["query_key_value"]
        return Weights(projection.layer_norm_weight, getattr(projection, "layer_norm_bias", None))

    def forward(self, hidden: torch.Tensor, rotary: RotaryTables | None) -> torch.Tensor:
        """Map the residual stream [batch, sequence, hidden], before its norm, to the same shape."""
        inner = self.__dict__["inner"]
        # Sequence and groups are read off the projection: a tensor-parallel rank enters with its share of the sequence
        # and has its own groups only.
        projected = self._split.order_sequence(inner["query_key_value"](hidden))
        batch, sequence, _ = projected.shape
        groups = projected.view(batch, sequence, -1, self._queries_per_group + 2, self._head_dim)
        queries, keys, values = _compiled_split()(groups, rotary)
        with self._random() if self._dropout and self.training else nullcontext():
            context = inner["core"](queries, keys, values)
        attended: torch.Tensor = inner["dense"](self._split.order_shares(context.reshape(batch, sequence, -1)))
        return attended


@cache
def _compiled_split() -> Any:
    return torch.compile(split_heads, fullgraph=True, dynamic=False)
