"""Causal self-attention over a query-key-value matrix fused by key-value group."""

from __future__ import annotations

from contextlib import nullcontext

import torch
import torch.nn.functional as F
from torch import nn

from neox_train.config.architecture import Architecture
from neox_train.errors import NotBuiltError
from neox_train.model.heads import split_heads
from neox_train.model.layers import LayerFactory
from neox_train.model.rotary import RotaryTables

_KINDS = ("global", "flash", "local")


class SelfAttention(nn.Module):
    """Attention of every position to itself and those before it; torch picks the fused kernel."""

    def __init__(self, architecture: Architecture, layers: LayerFactory, *, kind: str) -> None:
        super().__init__()
        if kind not in _KINDS:
            raise NotBuiltError(f"attention_config: {kind!r} is not built here; choose one of {', '.join(_KINDS)}")
        a = architecture
        self._head_dim = a.head_dim
        self._queries_per_group = a.num_attention_heads // a.num_kv_heads
        self._dropout = a.attention_dropout
        self._random = layers.cut_random
        self.query_key_value = layers.column_linear(a.hidden_size, a.qkv_rows, bias=a.attention_bias)
        self._needs_mask = a.needs_mask(kind)
        # None is the kernels' own 1 / sqrt(head width).
        self._scale = a.attention_scale if a.mup_width else None
        self.dense = layers.row_linear(a.hidden_size, a.hidden_size, bias=a.attention_bias)
        self.qk_layernorm = layers.norm(a) if a.qk_norm else None

    def forward(
        self, hidden: torch.Tensor, rotary: RotaryTables | None, mask: torch.Tensor | None = None
    ) -> torch.Tensor:
        """Map [batch, sequence, hidden] to the same shape; ``mask`` is added to the scores, see ``AttentionMasks``."""
        if self._needs_mask and mask is None:
            raise ValueError("this layer's attention is more than causal: it needs its mask")
        # Sequence and groups are read off the projection: a tensor-parallel rank enters with its share of the sequence
        # and has its own groups only.
        projected = self.query_key_value(hidden)
        batch, sequence, _ = projected.shape
        groups = projected.view(batch, sequence, -1, self._queries_per_group + 2, self._head_dim)
        queries, keys, values = split_heads(groups, rotary, norm=self.qk_layernorm)
        dropout = self._dropout if self.training else 0.0
        with self._random() if dropout else nullcontext():
            context = F.scaled_dot_product_attention(
                queries.transpose(1, 2),
                keys.transpose(1, 2),
                values.transpose(1, 2),
                dropout_p=dropout,
                attn_mask=mask,
                is_causal=mask is None,
                scale=self._scale,
                enable_gqa=self._queries_per_group > 1,
            )
        return self.dense(context.transpose(1, 2).reshape(batch, sequence, -1))
