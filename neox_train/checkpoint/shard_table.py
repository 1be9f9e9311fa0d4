"""Which shard of each parameter a tensor-parallel rank holds, and how much of it is stored."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F

from neox_train.checkpoint.adapters.held import Position
from neox_train.checkpoint.table import ParameterTable, count_elements
from neox_train.config.schema import NeoxConfig
from neox_train.model.parallel.cutting import cut


@dataclass(frozen=True, kw_only=True)
class ShardTable:
    """The parameters as one tensor-parallel rank holds them."""

    parameters: ParameterTable
    padded_vocab_size: int
    rank: int
    size: int

    @classmethod
    def held_at(cls, position: Position, parameters: ParameterTable, config: NeoxConfig) -> ShardTable:
        """The table of the rank at ``position`` on the grid."""
        return cls(
            parameters=parameters,
            padded_vocab_size=config.padded_vocab_size or 0,
            rank=position.tp,
            size=position.tp_size,
        )

    def find(self, name: str) -> tuple[int, int]:
        """Which shard of how many this rank holds: the only one of a parameter that is not cut."""
        return (0, 1) if self.parameters[name].shard_dim is None else (self.rank, self.size)

    def count(self, name: str) -> int:
        """Stored elements of this rank's shard: vocabulary padding comes last and is not stored."""
        shard, _ = self.find(name)
        return self.list_counts(name)[shard]

    def list_counts(self, name: str) -> list[int]:
        """Stored elements of every rank's shard."""
        record = self.parameters[name]
        _, shards = self.find(name)
        if not record.is_vocabulary:
            return [count_elements(record) // shards] * shards
        rows, *rest = record.shape
        own_rows = self.padded_vocab_size // shards
        return [max(0, min(own_rows, rows - shard * own_rows)) * math.prod(rest) for shard in range(shards)]

    def cut(self, name: str, whole: torch.Tensor) -> torch.Tensor:
        """This rank's shard, flat, of a whole parameter without padding; padding becomes zeros."""
        record = self.parameters[name]
        shard, shards = self.find(name)
        if record.is_vocabulary:
            padding = self.padded_vocab_size - len(whole)
            whole = F.pad(whole, (0, 0) * (whole.dim() - 1) + (0, padding))
        own = cut(whole, dim=record.shard_dim, parts=record.shard_parts, rank=shard, size=shards)
        return own.reshape(-1)
