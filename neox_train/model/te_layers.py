"""Layers by Transformer Engine where the keys ask for them, plain ones elsewhere."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import nn

from neox_train.config.architecture import Architecture
from neox_train.model.layers import Linear, LocalLayers
from neox_train.model.te import build_te_norm, import_te


@dataclass(frozen=True, kw_only=True)
class TELayers(LocalLayers):
    """Whole layers on one GPU; a Transformer Engine Linear keeps ``weight`` and ``bias`` as the plain one does."""

    columns: bool
    rows: bool

    def column_linear(self, in_features: int, out_features: int, *, bias: bool) -> nn.Module:
        """By Transformer Engine with ``te_columnparallel``."""
        return _build_linear(in_features, out_features, bias=bias, by_te=self.columns)

    def row_linear(self, in_features: int, out_features: int, *, bias: bool) -> nn.Module:
        """By Transformer Engine with ``te_rowparallel``."""
        return _build_linear(in_features, out_features, bias=bias, by_te=self.rows)

    def norm(self, architecture: Architecture) -> nn.Module:
        """By Transformer Engine where the norm's name starts with te_."""
        return build_te_norm(architecture) if architecture.norm.startswith("te_") else super().norm(architecture)


def _build_linear(in_features: int, out_features: int, *, bias: bool, by_te: bool) -> nn.Module:
    if not by_te:
        return Linear(in_features, out_features, bias=bias)
    linear: nn.Module = import_te().Linear(in_features, out_features, bias=bias, params_dtype=torch.float32)
    return linear
