"""Weight-decay groups, read off the canonical parameter table."""

from __future__ import annotations

from typing import Any

from torch import nn

from neox_train.config.architecture import Architecture
from neox_train.config.parameters import list_parameters


def group_parameters(
    model: nn.Module, architecture: Architecture, weight_decay: float, *, is_whole: bool = True
) -> list[dict[str, Any]]:
    """Optimizer groups in table order: matrices decay (embeddings too, as GPT-NeoX), biases and norms do not.

    One group when nothing decays. Of a pipeline stage only those it holds; ``is_whole`` wants all of the table. Raises
    ValueError when the model's parameters are not the table's.
    """
    parameters = dict(model.named_parameters())
    table = [entry for entry in list_parameters(architecture) if is_whole or entry.name in parameters]
    if set(parameters) != {entry.name for entry in table}:
        raise ValueError("the model's parameters are not those of the canonical table")
    if weight_decay == 0.0:
        return [{"params": [parameters[entry.name] for entry in table], "weight_decay": 0.0}]
    groups = [
        {"params": [parameters[entry.name] for entry in table if entry.decays], "weight_decay": weight_decay},
        {"params": [parameters[entry.name] for entry in table if not entry.decays], "weight_decay": 0.0},
    ]
    return [group for group in groups if group["params"]]
