"""The weight files of an export: planned from the architecture alone, written one by one, each recorded when whole."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from neox_train.checkpoint.hf_keys import KeyRow, list_key_rows, to_hf
from neox_train.checkpoint.tensor_file import write_tensors
from neox_train.config.architecture import Architecture
from neox_train.files import atomic_path, sha256_file

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
"""Precisions an export can be stored in."""

INDEX_NAME = "model.safetensors.index.json"

FileRecord = dict[str, Any]
"""``bytes`` and ``sha256`` of one file."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Shard:
    """One weight file and the rows of the key table it holds."""

    file: str
    rows: tuple[KeyRow, ...]

    @property
    def names(self) -> list[str]:
        """Hugging Face names of the shard's tensors."""
        return [name for row in self.rows for name in row.hf]

    def count_bytes(self, dtype: str) -> int:
        """Bytes of the shard's tensors."""
        return sum(row.count for row in self.rows) * DTYPES[dtype].itemsize


def plan_shards(architecture: Architecture, *, dtype: str, max_shard_bytes: int) -> list[Shard]:
    """Fill shards in the canonical order up to ``max_shard_bytes`` of tensors; a larger row has a shard of its own."""
    groups: list[list[KeyRow]] = [[]]
    filled = 0
    for row in list_key_rows(architecture):
        size = row.count * DTYPES[dtype].itemsize
        if groups[-1] and filled + size > max_shard_bytes:
            groups.append([])
            filled = 0
        groups[-1].append(row)
        filled += size
    if len(groups) == 1:
        return [Shard(file="model.safetensors", rows=tuple(groups[0]))]
    total = len(groups)
    return [
        Shard(file=f"model-{number:05d}-of-{total:05d}.safetensors", rows=tuple(rows))
        for number, rows in enumerate(groups, start=1)
    ]


def build_index(shards: list[Shard], *, dtype: str) -> dict[str, Any]:
    """Contents of the index that names each tensor's file."""
    return {
        "metadata": {"total_size": sum(shard.count_bytes(dtype) for shard in shards)},
        "weight_map": {name: shard.file for shard in shards for name in shard.names},
    }


def write_shard(
    folder: Path,
    shard: Shard,
    weights: Callable[[], Mapping[str, torch.Tensor]],
    architecture: Architecture,
    dtype: str,
) -> FileRecord:
    """Write one weight file atomically; ``weights()`` gives the canonical tensors."""
    tensors: dict[str, torch.Tensor] = {}
    for row in shard.rows:
        for name, tensor in to_hf(row, weights(), architecture).items():
            tensors[name] = tensor.to(DTYPES[dtype])
    with atomic_path(folder / shard.file) as temporary:
        # Older transformers refuse a file that does not name its framework.
        record = write_tensors(temporary, tensors, metadata={"format": "pt"})
    return {"bytes": record.bytes, "sha256": record.sha256}


def describe_file(path: Path) -> FileRecord:
    """Size and SHA-256 of a file."""
    return {"bytes": path.stat().st_size, "sha256": sha256_file(path)}
