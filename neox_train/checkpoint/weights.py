"""The weights of a checkpoint as whole tensors, read without an engine and without DeepSpeed."""

from __future__ import annotations

from pathlib import Path

import torch

from neox_train.checkpoint.manifest import read_manifest
from neox_train.checkpoint.shards import read_whole
from neox_train.checkpoint.tensor_reader import open_tensors


def read_model_weights(folder: Path) -> dict[str, torch.Tensor]:
    """Whole fp32 weights by canonical name, without vocabulary padding; needs no engine and no process group."""
    manifest = read_manifest(folder)
    with open_tensors(folder) as reader:
        return {name: read_whole(reader, name, record) for name, record in manifest.parameters.items()}
