"""The optimizer that GPT-NeoX's ``optimizer`` block names, over the weight-decay groups."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from neox_train.config.support import OPTIMIZER_PARAMS
from neox_train.errors import NotBuiltError
from neox_train.training.lion import Lion

if TYPE_CHECKING:
    from neox_train.config.schema import NeoxConfig

ParameterGroups = list[dict[str, Any]]


def build_optimizer(config: NeoxConfig, groups: ParameterGroups, device: torch.device) -> torch.optim.Optimizer:
    """Build the optimizer of ``config.optimizer`` over ``groups``.

    ``Adam`` decays decoupled from the gradient (AdamW), as the fused Adam of DeepSpeed and Apex that GPT-NeoX uses.
    ``use_bnb_optimizer`` keeps Adam's states in 8 bits. Raises NotBuiltError for a type that is not built here.
    """
    kind = config.optimizer_type
    params = select_params(config)
    if kind in ("adam", "adamw"):
        if config.use_bnb_optimizer:
            from neox_train.training.eight_bit import build_adam_8bit

            return build_adam_8bit(groups, **params)
        return torch.optim.AdamW(groups, fused=device.type == "cuda", **params)
    if config.use_bnb_optimizer:
        raise NotBuiltError(
            f"`use_bnb_optimizer` with optimizer type {kind} is not built; "
            "set `optimizer.type: Adam` or leave `use_bnb_optimizer` out"
        )
    if kind == "sgd":
        return torch.optim.SGD(groups, **params)
    if kind == "lion":
        return Lion(groups, **params)
    raise NotBuiltError(f"optimizer type {kind} is not built; set `optimizer.type` to Adam, SGD or Lion")


def set_learning_rate(optimizer: torch.optim.Optimizer, lr: float) -> None:
    """Set the learning rate of every group."""
    for group in optimizer.param_groups:
        group["lr"] = lr


def select_params(config: NeoxConfig) -> dict[str, Any]:
    """The parameters the type reads; ``require_trainable`` has refused any other that would have an effect."""
    given: dict[str, Any] = dict((config.optimizer or {}).get("params", {}))
    read = OPTIMIZER_PARAMS.get(config.optimizer_type, ())
    params = {name: given[name] for name in read if name in given}
    if "betas" in params:
        params["betas"] = tuple(params["betas"])
    return params
