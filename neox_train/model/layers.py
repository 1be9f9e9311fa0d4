"""The factory every block takes its layers from, so that parallel or fused layers can replace plain ones."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Protocol

import torch
import torch.nn.functional as F
from torch import nn

from neox_train.config.architecture import Architecture
from neox_train.model.loss import cross_entropy
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

    def position_embedding(self, rows: int, width: int) -> nn.Module:
        """Learned positions: called with a sequence's length, and its positions where they are not 0, 1, 2, ..."""
        ...

    def norm(self, architecture: Architecture) -> nn.Module:
        """The normalisation the architecture names."""
        ...

    def project(self, hidden: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        """Logits by the tied word embeddings."""
        ...

    def cross_entropy(self, logits: torch.Tensor, targets: torch.Tensor, *, vocab_size: int) -> torch.Tensor:
        """Mean loss, fp32, of what the output layer gives."""
        ...

    def gather_logits(self, logits: torch.Tensor) -> torch.Tensor:
        """Logits over the whole vocabulary of what the output layer gives."""
        ...

    def cut_heads(self, values: list[float]) -> list[float]:
        """This rank's of one value a head."""
        ...

    def share_sequence(self, table: torch.Tensor) -> torch.Tensor:
        """The rows of this rank's positions, of [..., sequence, hidden]."""
        ...

    def cut_random(self) -> AbstractContextManager[None]:
        """Around random draws for what is cut over ranks (heads)."""
        ...

    def shared_random(self) -> AbstractContextManager[None]:
        """Around random draws for hidden states between the layers."""
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


class PositionEmbedding(Embedding):
    """One learned row a position."""

    def forward(self, length: int, positions: torch.Tensor | None = None) -> torch.Tensor:
        """[length, width], or [batch, length, width] of int64 ``positions`` [batch, length]."""
        return F.embedding(self._place(length, positions), self.weight)

    def _place(self, length: int, positions: torch.Tensor | None) -> torch.Tensor:
        if length > self.weight.shape[0]:
            raise ValueError(f"{length} positions, but max_position_embeddings is {self.weight.shape[0]}")
        return torch.arange(length, device=self.weight.device) if positions is None else positions


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

    def position_embedding(self, rows: int, width: int) -> nn.Module:
        """A whole ``PositionEmbedding``."""
        return PositionEmbedding(rows, width)

    def norm(self, architecture: Architecture) -> nn.Module:
        """torch's own normalisation."""
        return build_norm(architecture)

    def project(self, hidden: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        """A plain product."""
        return F.linear(hidden, weight)

    def cross_entropy(self, logits: torch.Tensor, targets: torch.Tensor, *, vocab_size: int) -> torch.Tensor:
        """The loss of whole logits."""
        return cross_entropy(logits, targets, vocab_size=vocab_size)

    def gather_logits(self, logits: torch.Tensor) -> torch.Tensor:
        """They are whole already."""
        return logits

    def cut_heads(self, values: list[float]) -> list[float]:
        """All of them."""
        return values

    def share_sequence(self, table: torch.Tensor) -> torch.Tensor:
        """All of it."""
        return table

    def cut_random(self) -> AbstractContextManager[None]:
        """The one stream there is."""
        return nullcontext()

    def shared_random(self) -> AbstractContextManager[None]:
        """The one stream there is."""
        return nullcontext()
