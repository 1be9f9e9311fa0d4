"""Finds the export of a checkpoint and reads it back under the canonical names."""

from __future__ import annotations

from pathlib import Path

import torch
from safetensors.torch import load_file

from neox_train.checkpoint.hf_keys import from_hf, list_key_rows
from neox_train.config.architecture import Architecture
from neox_train.config.layout import RunFolder


def name_export(run: RunFolder) -> Path:
    """Folder of the export of a run's only checkpoint."""
    (step,) = run.checkpoints.glob("step_*")
    return run.path / f"hf-{step.name}"


def load_canonical(folder: Path, architecture: Architecture) -> dict[str, torch.Tensor]:
    """Whole tensors without vocabulary padding."""
    tensors: dict[str, torch.Tensor] = {}
    for file in sorted(folder.glob("*.safetensors")):
        tensors |= load_file(file)
    weights = {}
    for row in list_key_rows(architecture):
        tensor = from_hf(row, tensors, architecture)
        if row.canonical is not None and tensor is not None:
            weights[row.canonical] = tensor
    return weights
