"""Layers that hold one rank's shard of each matrix (Shoeybi et al. 2019), with or without sequence parallelism."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

import torch
import torch.nn.functional as F
from torch import nn

from neox_train.config.architecture import Architecture
from neox_train.model.layers import Embedding, Linear, PositionEmbedding
from neox_train.model.norm import build_norm
from neox_train.model.parallel.group import TensorGroup
from neox_train.model.parallel.loss import vocabulary_cross_entropy
from neox_train.model.parallel.random import own_random_stream
from neox_train.model.parallel.regions import (
    copy_to_shards,
    gather_last,
    gather_sequence,
    scatter_sequence_sum,
    sum_over_shards,
)


class ParallelLayers:
    """The layer factory of a tensor-parallel rank; ``sequence_parallel`` shares the sequence out between the layers."""

    def __init__(self, group: TensorGroup, *, sequence_parallel: bool) -> None:
        self._group = group
        self._sequence_parallel = sequence_parallel

    def column_linear(self, in_features: int, out_features: int, *, bias: bool) -> nn.Module:
        """This rank's rows of a matrix; its output features stay cut."""
        return ColumnLinear(in_features, out_features, bias=bias, edge=self)

    def row_linear(self, in_features: int, out_features: int, *, bias: bool) -> nn.Module:
        """This rank's columns of a matrix; its output is summed over the ranks."""
        return RowLinear(in_features, out_features, bias=bias, edge=self)

    def embedding(self, rows: int, width: int) -> nn.Module:
        """This rank's rows of the vocabulary."""
        return VocabularyEmbedding(rows, width, group=self._group, edge=self)

    def position_embedding(self, rows: int, width: int) -> nn.Module:
        """The whole table on every rank; looked up for this rank's share of the sequence."""
        if not self._sequence_parallel:
            return PositionEmbedding(rows, width)
        return SharedPositionEmbedding(rows, width, group=self._group)

    def norm(self, architecture: Architecture) -> nn.Module:
        """The normalisation the architecture names, whole on every rank."""
        norm = build_norm(architecture)
        return ShareNorm(norm, self._group) if self._sequence_parallel and list(norm.parameters()) else norm

    def project(self, hidden: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        """This rank's logits by the tied embedding's rows."""
        return F.linear(self.enter(hidden), weight)

    def cross_entropy(self, logits: torch.Tensor, targets: torch.Tensor, *, vocab_size: int) -> torch.Tensor:
        """Mean loss without gathering the logits."""
        return vocabulary_cross_entropy(logits, targets, vocab_size=vocab_size, group=self._group)

    def gather_logits(self, logits: torch.Tensor) -> torch.Tensor:
        """Whole logits on every rank."""
        return gather_last(logits, self._group)

    def cut_heads(self, values: list[float]) -> list[float]:
        """The values of this rank's heads."""
        own = self.divide(len(values))
        return values[self._group.rank * own : (self._group.rank + 1) * own]

    def share_sequence(self, table: torch.Tensor) -> torch.Tensor:
        """This rank's share of the rows where the sequence is shared out."""
        return table.chunk(self._group.size, dim=-2)[self._group.rank] if self._sequence_parallel else table

    def cut_random(self) -> AbstractContextManager[None]:
        """A random stream of this rank's own, for what is cut over the ranks."""
        return own_random_stream(self._group.rank)

    def shared_random(self) -> AbstractContextManager[None]:
        """The stream for what lies between the layers: the same on every rank, unless each has its own share."""
        return own_random_stream(self._group.rank) if self._sequence_parallel else nullcontext()

    def enter(self, hidden: torch.Tensor) -> torch.Tensor:
        """Whole hidden states as the input of a cut matrix."""
        border = gather_sequence if self._sequence_parallel else copy_to_shards
        return border(hidden, self._group)

    def leave(self, partial: torch.Tensor) -> torch.Tensor:
        """Partial sums of a cut matrix as hidden states."""
        border = scatter_sequence_sum if self._sequence_parallel else sum_over_shards
        return border(partial, self._group)

    def shared(self, parameter: torch.Tensor) -> torch.Tensor:
        """A parameter that every rank holds, used between the layers: with shares its gradients are partial sums."""
        return copy_to_shards(parameter, self._group) if self._sequence_parallel else parameter

    def divide(self, features: int) -> int:
        """Features of one rank."""
        if features % self._group.size:
            raise ValueError(f"{features} features cannot be cut over {self._group.size} tensor-parallel ranks")
        return features // self._group.size


class ColumnLinear(Linear):
    """Rows of ``y = x W^T + b``."""

    def __init__(self, in_features: int, out_features: int, *, bias: bool, edge: ParallelLayers) -> None:
        super().__init__(in_features, edge.divide(out_features), bias=bias)
        self._edge = edge
        mark_as_cut(self.weight, self.bias)

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        """Map whole [batch, sequence or share, in_features] to cut [batch, sequence, out_features / size]."""
        return F.linear(self._edge.enter(hidden), self.weight, self.bias)


class RowLinear(Linear):
    """Columns of ``y = x W^T + b``; the bias is whole on every rank."""

    def __init__(self, in_features: int, out_features: int, *, bias: bool, edge: ParallelLayers) -> None:
        super().__init__(edge.divide(in_features), out_features, bias=bias)
        self._edge = edge
        mark_as_cut(self.weight)

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        """Map cut [batch, sequence, in_features / size] to whole [batch, sequence or share, out_features]."""
        hidden = self._edge.leave(F.linear(features, self.weight))
        return hidden if self.bias is None else hidden + self._edge.shared(self.bias)


class VocabularyEmbedding(Embedding):
    """Rows of the word embeddings."""

    def __init__(self, rows: int, width: int, *, group: TensorGroup, edge: ParallelLayers) -> None:
        super().__init__(edge.divide(rows), width)
        self._first = group.rank * edge.divide(rows)
        self._edge = edge
        mark_as_cut(self.weight)

    def forward(self, indices: torch.Tensor) -> torch.Tensor:
        """Map int64 [batch, sequence] to [batch, sequence or share, width]."""
        local = indices - self._first
        is_elsewhere = (local < 0) | (local >= self.weight.shape[0])
        looked_up = F.embedding(local.masked_fill(is_elsewhere, 0), self.weight)
        return self._edge.leave(looked_up.masked_fill(is_elsewhere.unsqueeze(-1), 0.0))


class SharedPositionEmbedding(PositionEmbedding):
    """Learned positions of this rank's share of the sequence."""

    def __init__(self, rows: int, width: int, *, group: TensorGroup) -> None:
        super().__init__(rows, width)
        self._group = group

    def forward(self, length: int, positions: torch.Tensor | None = None) -> torch.Tensor:
        """[length / size, width] for a sequence of ``length``; with a batch of ``positions`` as the whole table."""
        share = self._place(length, positions).chunk(self._group.size, dim=-1)[self._group.rank]
        return F.embedding(share, copy_to_shards(self.weight, self._group))


class ShareNorm(nn.Module):
    """A norm over this rank's share of the sequence: the gradients of its parameters are summed over the ranks."""

    def __init__(self, norm: nn.Module, group: TensorGroup) -> None:
        super().__init__()
        self._group = group
        # The parameters under their canonical names, the arithmetic of the norm itself.
        for name, parameter in norm.named_parameters():
            self.register_parameter(name, parameter)
        object.__setattr__(self, "_norm", norm)

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        """Map [batch, share, hidden] to the same shape."""
        whole = {name: copy_to_shards(parameter, self._group) for name, parameter in self.named_parameters()}
        return torch.func.functional_call(self._norm, whole, (hidden,))


def mark_as_cut(*parameters: torch.Tensor | None) -> None:
    """Tell DeepSpeed that other ranks hold other shards, so that norms count every shard once."""
    for parameter in parameters:
        if parameter is not None:
            parameter.model_parallel = parameter.tensor_model_parallel = True
