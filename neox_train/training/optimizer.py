"""The optimizer that GPT-NeoX's ``optimizer`` block names, over the weight-decay groups."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from neox_train.errors import ConfigError, NotBuiltError
from neox_train.training.lion import Lion

if TYPE_CHECKING:
    from neox_train.config.schema import NeoxConfig

ParameterGroups = list[dict[str, Any]]

_ADAM_KEYS = {"lr", "betas", "eps"}
_SGD_KEYS = {"lr", "momentum", "dampening", "nesterov"}
_LION_KEYS = {"lr", "betas"}
_WITHOUT_EFFECT = {"torch_adam", "adam_w_mode", "fused", "bias_correction"}
"""DeepSpeed's switches between implementations of the same arithmetic."""


def build_optimizer(config: NeoxConfig, groups: ParameterGroups, device: torch.device) -> torch.optim.Optimizer:
    """Build the optimizer of ``config.optimizer`` over ``groups``.

    ``Adam`` decays decoupled from the gradient (AdamW), as the fused Adam of DeepSpeed and Apex that GPT-NeoX uses.
    ``use_bnb_optimizer`` keeps Adam's states in 8 bits. Raises NotBuiltError for a type that is not built here and
    ConfigError for a parameter that the type does not have.
    """
    kind, block = config.optimizer_type, config.optimizer or {}
    name, given = block.get("type", kind), dict(block.get("params", {}))
    if kind in ("adam", "adamw"):
        arguments = _adam_arguments(_select(given, _ADAM_KEYS, name))
        if config.use_bnb_optimizer:
            from neox_train.training.eight_bit import build_adam_8bit

            return build_adam_8bit(groups, **arguments)
        return torch.optim.AdamW(groups, fused=device.type == "cuda", **arguments)
    if config.use_bnb_optimizer:
        raise NotBuiltError(
            f"`use_bnb_optimizer` with optimizer type {name} is not built; "
            "set `optimizer.type: Adam` or leave `use_bnb_optimizer` out"
        )
    if kind == "sgd":
        return torch.optim.SGD(groups, **_select(given, _SGD_KEYS, name))
    if kind == "lion":
        params = _select(given, _LION_KEYS, name)
        return Lion(groups, lr=params["lr"], betas=tuple(params.get("betas", (0.9, 0.99))))
    raise NotBuiltError(f"optimizer type {name} is not built; set `optimizer.type` to Adam, SGD or Lion")


def set_learning_rate(optimizer: torch.optim.Optimizer, lr: float) -> None:
    """Set the learning rate of every group."""
    for group in optimizer.param_groups:
        group["lr"] = lr


def _adam_arguments(params: dict[str, Any]) -> dict[str, Any]:
    return {"lr": params["lr"], "betas": tuple(params.get("betas", (0.9, 0.999))), "eps": params.get("eps", 1e-8)}


def _select(given: dict[str, Any], known: set[str], kind: str) -> dict[str, Any]:
    given = {key: value for key, value in given.items() if key not in _WITHOUT_EFFECT}
    for key in given:
        if key not in known:
            raise ConfigError(
                f"`optimizer.params.{key}` is not a parameter of optimizer type {kind}; "
                f"it takes {', '.join(sorted(known))}"
            )
    return given
