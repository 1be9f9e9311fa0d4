"""What one rank contributes to a checkpoint: one safetensors file and a record of it for rank 0."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from neox_train.checkpoint.adapters.held import EngineState, Held
from neox_train.checkpoint.fragments import MASTER, Fragment
from neox_train.checkpoint.manifest import FileRecord
from neox_train.checkpoint.optimizer_state import Scalar, TensorState, split_state
from neox_train.checkpoint.random_state import capture_random_state
from neox_train.checkpoint.shard_table import ShardTable
from neox_train.checkpoint.tensor_file import count_bytes, write_tensors


@dataclass
class RankFile:
    """One rank's tensors by key, and everything about them that rank 0 writes as JSON."""

    name: str
    tensors: dict[str, torch.Tensor] = field(default_factory=dict)
    fragments: list[Fragment] = field(default_factory=list)
    scalars: dict[str, dict[str, Scalar]] = field(default_factory=dict)
    """Step counts and the like, by parameter."""
    opaque: list[dict[str, Any]] = field(default_factory=list)
    """For each held tensor with quantised states: its place, its length and the states' keys."""
    random_values: dict[str, Any] = field(default_factory=dict)

    @property
    def size_bytes(self) -> int:
        """Bytes the file will have."""
        return count_bytes(self.tensors)

    def write(self, folder: Path) -> FileRecord:
        """Write and fsync the file."""
        return write_tensors(folder / self.name, self.tensors)


def name_rank_file(rank: int) -> str:
    """File name of a rank's tensors."""
    return f"rank_{rank:05d}.safetensors"


def opaque_key(held_index: int, state: str) -> str:
    """Tensor name of a state that belongs to one tensor of one optimizer as it is."""
    return f"opaque:{held_index}:{state}"


def collect_rank_file(state: EngineState, shards: ShardTable, rank: int) -> RankFile:
    """Gather this rank's share: its own partitions, or an even part of what all ranks hold; no data is copied."""
    file = RankFile(name_rank_file(rank))
    for index, held in enumerate(state.held):
        split = split_state(held.tensor, state.optimizer.state.get(held.tensor, {}))
        for name in held.names:
            file.scalars[name] = split.scalars
        _add_fragments(file, state, held, split, shards)
        if split.opaque and (not state.replicated or state.position.dp == 0):
            file.opaque.append({"held": index, "length": held.tensor.numel(), "keys": sorted(split.opaque)})
            file.tensors |= {opaque_key(index, key): value for key, value in split.opaque.items()}
    random_tensors, file.random_values = capture_random_state()
    file.tensors |= random_tensors
    return file


def _add_fragments(file: RankFile, state: EngineState, held: Held, split: TensorState, shards: ShardTable) -> None:
    begin, end = _own_part(state, held.tensor.numel())
    sources = {MASTER: held.tensor, **split.elementwise}
    for segment in held.segments:
        shard, of = shards.find(segment.name)
        if (of == 1 and state.position.tp > 0) or segment.name in state.copies:
            # Every tensor-parallel rank holds it, or another stage: the first one writes it.
            continue
        first = max(segment.offset, begin)
        stored = max(0, shards.count(segment.name) - segment.start)
        last = min(segment.offset + min(segment.length, stored), end)
        if first >= last:
            continue
        for name, source in sources.items():
            start = segment.start + first - segment.offset
            fragment = Fragment(name, segment.name, start, last - first, shard, of)
            file.fragments.append(fragment)
            file.tensors[fragment.key] = source.detach().reshape(-1)[first:last]


def _own_part(state: EngineState, length: int) -> tuple[int, int]:
    """The slice of a held tensor that this rank writes."""
    if not state.replicated:
        return 0, length
    position = state.position
    return length * position.dp // position.dp_size, length * (position.dp + 1) // position.dp_size
