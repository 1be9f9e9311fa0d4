"""Layers by Transformer Engine where the keys ask for them, plain ones elsewhere."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from neox_train.config.architecture import Architecture
from neox_train.model.layers import Linear, LocalLayers
from neox_train.model.parallel.group import TensorGroup
from neox_train.model.parallel.layers import ParallelLayers, ShareNorm, mark_as_cut
from neox_train.model.te import build_te_norm, import_te
from neox_train.model.te_adopt import Adopter


@dataclass(frozen=True, kw_only=True)
class TELayers(LocalLayers):
    """Whole layers on one GPU; a Transformer Engine Linear keeps ``weight`` and ``bias`` as the plain one does."""

    columns: bool
    rows: bool

    def column_linear(self, in_features: int, out_features: int, *, bias: bool) -> nn.Module:
        """By Transformer Engine with ``te_columnparallel``."""
        build = _build_linear if self.columns else Linear
        return build(in_features, out_features, bias=bias)

    def row_linear(self, in_features: int, out_features: int, *, bias: bool) -> nn.Module:
        """By Transformer Engine with ``te_rowparallel``."""
        build = _build_linear if self.rows else Linear
        return build(in_features, out_features, bias=bias)

    def norm(self, architecture: Architecture) -> nn.Module:
        """By Transformer Engine where the norm's name starts with te_."""
        return build_te_norm(architecture) if architecture.norm.startswith("te_") else super().norm(architecture)


class TEParallelLayers(ParallelLayers):
    """The layers of a tensor-parallel rank: Transformer Engine's products between this project's collectives."""

    def __init__(self, group: TensorGroup, *, sequence_parallel: bool, columns: bool, rows: bool) -> None:
        super().__init__(group, sequence_parallel=sequence_parallel)
        self._columns, self._rows = columns, rows

    def column_linear(self, in_features: int, out_features: int, *, bias: bool) -> nn.Module:
        """By Transformer Engine with ``te_columnparallel``."""
        if not self._columns:
            return super().column_linear(in_features, out_features, bias=bias)
        return TEColumnLinear(in_features, out_features, bias=bias, edge=self)

    def row_linear(self, in_features: int, out_features: int, *, bias: bool) -> nn.Module:
        """By Transformer Engine with ``te_rowparallel``."""
        if not self._rows:
            return super().row_linear(in_features, out_features, bias=bias)
        return TERowLinear(in_features, out_features, bias=bias, edge=self)

    def norm(self, architecture: Architecture) -> nn.Module:
        """By Transformer Engine where the norm's name starts with te_; whole on every rank."""
        if not architecture.norm.startswith("te_"):
            return super().norm(architecture)
        norm = build_te_norm(architecture)
        return ShareNorm(norm, self._group) if self._sequence_parallel else norm


class TEColumnLinear(Adopter):
    """``ColumnLinear`` with the product by Transformer Engine."""

    def __init__(self, in_features: int, out_features: int, *, bias: bool, edge: ParallelLayers) -> None:
        super().__init__()
        linear: Any = self.adopt("linear", _build_linear(in_features, edge.divide(out_features), bias=bias))
        self._edge = edge
        self.weight: nn.Parameter = linear.weight
        self.register_parameter("bias", linear.bias if bias else None)
        mark_as_cut(self.weight, self.bias)

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        """Map whole [batch, sequence or share, in_features] to cut [batch, sequence, out_features / size]."""
        features: torch.Tensor = self.__dict__["inner"]["linear"](self._edge.enter(hidden))
        return features


class TERowLinear(Adopter):
    """``RowLinear`` with the product by Transformer Engine; the bias is whole on every rank."""

    def __init__(self, in_features: int, out_features: int, *, bias: bool, edge: ParallelLayers) -> None:
        super().__init__()
        linear: Any = self.adopt("linear", _build_linear(edge.divide(in_features), out_features, bias=False))
        self._edge = edge
        self.weight: nn.Parameter = linear.weight
        self.register_parameter("bias", nn.Parameter(torch.empty(out_features)) if bias else None)
        mark_as_cut(self.weight)

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        """Map cut [batch, sequence, in_features / size] to whole [batch, sequence or share, out_features]."""
        hidden = self._edge.leave(self.__dict__["inner"]["linear"](features))
        return hidden if self.bias is None else hidden + self._edge.shared(self.bias)


def _build_linear(in_features: int, out_features: int, *, bias: bool) -> nn.Module:
    linear: nn.Module = import_te().Linear(in_features, out_features, bias=bias, params_dtype=torch.float32)
    return linear
