"""The factory every block takes its layers from, so that parallel or fused layers can replace plain ones."""

from __future__ import annotations

from typing import Protocol

import torch
import torch.nn.functional as F
from torch import nn

from neox_train.config.architecture import Architecture
from neox_train.model.norm import build_norm


class LayerFactory(Protocol):
    """Makes the layers that tensor parallelism or Transformer Engine may replace.

    Every layer keeps its parameters directly under ``weight`` and ``bias``, so that the canonical names hold for all.
    """

    def column_linear(self, in_features: int, out_features: int, *, bias: bool) -> nn.Module:
        """A projection whose output features may be cut over tensor-parallel ranks."""
        ...

    def row_linear(self, in_features: int, out_features: int, *, bias: bool) -> nn.Module:
        """A projection whose input features may be cut over tensor-parallel ranks; its output is whole."""
        ...

    def embedding(self, rows: int, width: int) -> nn.Module:
        """A lookup table whose rows may be cut over tensor-parallel ranks."""
        ...

    def norm(self, architecture: Architecture) -> nn.Module:
        """The normalisation the architecture names."""
        ...


class Linear(nn.Module):
    """``y = x W^T + b``; memory is left unset because every parameter is initialised or loaded by name afterwards."""

    def __init__(self, in_features: int, out_features: int, *, bias: bool) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(out_features, in_features))
        self.register_parameter("bias", nn.Parameter(torch.empty(out_features)) if bias else None)

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        """Map [..., in_features] to [..., out_features]."""
        return F.linear(features, self.weight, self.bias)


class Embedding(nn.Module):
    """One learned row per index; memory is left unset as in ``Linear``."""

    def __init__(self, rows: int, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(rows, width))

    def forward(self, indices: torch.Tensor) -> torch.Tensor:
        """Map int64 [...] to [..., width]."""
        return F.embedding(indices, self.weight)


class LocalLayers:
    """Whole layers on one device."""

    def column_linear(self, in_features: int, out_features: int, *, bias: bool) -> nn.Module:
        """A whole ``Linear``."""
        return Linear(in_features, out_features, bias=bias)

    def row_linear(self, in_features: int, out_features: int, *, bias: bool) -> nn.Module:
        """A whole ``Linear``."""
        return Linear(in_features, out_features, bias=bias)

    def embedding(self, rows: int, width: int) -> nn.Module:
        """A whole ``Embedding``."""
        return Embedding(rows, width)

    def norm(self, architecture: Architecture) -> nn.Module:
        """torch's own normalisation."""
        return build_norm(architecture)
