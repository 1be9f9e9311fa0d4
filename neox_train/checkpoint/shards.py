"""Reading parameters that were saved in tensor-parallel shards, whole or in other shards."""

from __future__ import annotations

import math

import torch

from neox_train.checkpoint.fragments import MASTER
from neox_train.checkpoint.manifest import ParameterRecord
from neox_train.checkpoint.shard_table import ShardTable
from neox_train.checkpoint.tensor_reader import TensorReader
from neox_train.model.parallel.cutting import join


def read_whole(reader: TensorReader, name: str, record: ParameterRecord, state: str = MASTER) -> torch.Tensor:
    """A parameter's weights, or one of its optimizer states, whole and without vocabulary padding, fp32 on the CPU."""
    shards = reader.index.shards(name)
    found = [_read_shard(reader, name, record, state, shard, shards) for shard in range(shards)]
    return join(found, dim=record.shard_dim, parts=record.shard_parts)


def fill_from_shards(
    flat: torch.Tensor, reader: TensorReader, shards: ShardTable, state: str, name: str, start: int
) -> None:
    """Fill ``flat`` with the elements from ``start`` of this rank's shard, however many shards were saved."""
    shard, _ = shards.find(name)
    stored = [reader.index.length(state, name, place) for place in range(reader.index.shards(name))]
    # All shards are compared: under another vocabulary padding one of them may be as long and begin at another row.
    if stored == shards.list_counts(name):
        reader.fill(flat, state, name, start, flat.numel(), shard=shard)
        return
    own = shards.cut(name, read_whole(reader, name, shards.parameters[name], state))
    flat.copy_(own[start : start + flat.numel()])


def _read_shard(
    reader: TensorReader, name: str, record: ParameterRecord, state: str, shard: int, shards: int
) -> torch.Tensor:
    shape = list(record.shape)
    if record.is_vocabulary:
        # Padding rows are not stored: the last shards may be short, or empty.
        shape[0] = reader.index.length(state, name, shard) // math.prod(shape[1:]) if shards > 1 else shape[0]
    elif record.shard_dim is not None:
        shape[record.shard_dim] //= shards
    flat = torch.empty(math.prod(shape), dtype=torch.float32)
    if flat.numel():
        reader.fill(flat, state, name, 0, flat.numel(), shard=shard)
    return flat.view(shape)
