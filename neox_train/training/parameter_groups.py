"""Optimizer groups, read off the canonical parameter table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from torch import nn

from neox_train.config.architecture import Architecture
from neox_train.config.optimizer_groups import cut_groups, put_aligned_first
from neox_train.config.parameters import list_parameters

if TYPE_CHECKING:
    from neox_train.config.schema import NeoxConfig

STATE_BITS = "state_bits"
"""Key of a group whose optimizer states have this many bits, whatever the optimizer's own."""
RATE_FACTOR = "rate_factor"
"""Key of a group whose learning rate is the schedule's times this."""
STEPPED_BY_MUON = "stepped_by_muon"
"""Key of a group of hidden matrices that Muon steps."""


def group_parameters(
    model: nn.Module, architecture: Architecture, config: NeoxConfig, *, is_whole: bool = True
) -> list[dict[str, Any]]:
    """Optimizer groups of the model's parameters, with weight decay and what the optimizer needs to know of each.

    Of a pipeline stage only those it holds; ``is_whole`` wants all of the table. Raises ValueError when the model's
    parameters are not the table's.

    Under muP the learning rate of the layers' matrices falls with the width and their decay rises with it, so that the
    product, by which a decoupled decay shrinks weights, is that of the tuned width (as in the mup package's MuAdamW).
    """
    parameters = dict(model.named_parameters())
    table = [entry for entry in list_parameters(architecture) if is_whole or entry.name in parameters]
    if set(parameters) != {entry.name for entry in table}:
        raise ValueError("the model's parameters are not those of the canonical table")
    width = architecture.mup_width
    groups = cut_groups(
        table,
        decay=config.weight_decay > 0,
        eight_bit=config.use_bnb_optimizer,
        matrices_apart=config.optimizer_type == "muon" or config.use_mup,
    )
    return [
        {
            "params": put_aligned_first(
                [parameters[entry.name] for entry in group.parameters], count=lambda parameter: parameter.numel()
            ),
            "weight_decay": config.weight_decay * (width if group.is_hidden_matrix and width else 1.0)
            if group.decays
            else 0.0,
            **({STATE_BITS: 32} if group.is_embedding else {}),
            **({STEPPED_BY_MUON: True} if group.is_hidden_matrix and config.optimizer_type == "muon" else {}),
            **({RATE_FACTOR: 1.0 / width} if group.is_hidden_matrix and width else {}),
        }
        for group in groups
    ]
