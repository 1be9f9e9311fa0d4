"""The optimizer that GPT-NeoX's ``optimizer`` block names, over the weight-decay groups."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from neox_train.config.offload import offloads_optimizer
from neox_train.config.one_bit import uses_one_bit
from neox_train.config.support import EIGHT_BIT_TYPES, OPTIMIZER_PARAMS
from neox_train.errors import ConfigError, NotBuiltError
from neox_train.training.lion import Lion
from neox_train.training.muon import MuonWithAdamW
from neox_train.training.parameter_groups import RATE_FACTOR

if TYPE_CHECKING:
    from neox_train.config.schema import NeoxConfig

ParameterGroups = list[dict[str, Any]]


def build_optimizer(config: NeoxConfig, groups: ParameterGroups, device: torch.device) -> torch.optim.Optimizer:
    """Build the optimizer of ``config.optimizer`` over ``groups``.

    ``Adam`` decays decoupled from the gradient (AdamW), as the fused Adam of DeepSpeed and Apex that GPT-NeoX uses.
    ``use_bnb_optimizer`` keeps the states of Adam or Lion in 8 bits. Raises NotBuiltError for a type that is not built
    here.
    """
    kind = config.optimizer_type
    params = select_params(config)
    if config.use_bnb_optimizer:
        return build_8bit_optimizer(config, groups)
    if kind in ("adam", "adamw"):
        return torch.optim.AdamW(groups, fused=device.type == "cuda" or offloads_optimizer(config), **params)
    if kind == "cpu_torch_adam":
        return torch.optim.AdamW(groups, fused=False, **params)
    if kind == "cpu_adam":
        return _build_cpu_adam(groups, **params)
    if kind == "sgd":
        return torch.optim.SGD(groups, **params)
    if kind == "lion":
        return Lion(groups, **params)
    if uses_one_bit(config):
        from neox_train.training.compression.one_bit_optimizer import build_one_bit

        return build_one_bit(config, groups, params)
    if kind == "muon":
        return MuonWithAdamW(groups, fused_adamw=device.type == "cuda", **params)
    raise NotBuiltError(f"optimizer type {kind} is not built; set `optimizer.type` to Adam, SGD, Lion or Muon")


def _build_cpu_adam(groups: ParameterGroups, **params: Any) -> torch.optim.Optimizer:
    """DeepSpeed's vectorised AdamW, which it compiles with this machine's C++ compiler at the first use."""
    from deepspeed.ops.adam import DeepSpeedCPUAdam

    try:
        built: torch.optim.Optimizer = DeepSpeedCPUAdam(groups, adamw_mode=True, **params)
    except (RuntimeError, OSError, ImportError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise ConfigError(
            f"optimizer.type CPU_Adam could not be compiled here ({reason}); install a C++ compiler and ninja, or set "
            "optimizer.type: CPU_torch_adam, the same arithmetic"
        ) from error
    return built


def build_8bit_optimizer(config: NeoxConfig, groups: ParameterGroups) -> torch.optim.Optimizer:
    """The optimizer of ``config.optimizer`` with 8-bit states; raises NotBuiltError for a type that has none here."""
    from neox_train.training.eight_bit import build_8bit

    if config.optimizer_type not in EIGHT_BIT_TYPES:
        raise NotBuiltError(
            f"`use_bnb_optimizer` with optimizer type {config.optimizer_type} is not built; "
            "set `optimizer.type` to Adam or Lion, or leave `use_bnb_optimizer` out"
        )
    return build_8bit(config.optimizer_type, groups, paged=config.bnb_paged, **select_params(config))


def set_learning_rate(optimizer: torch.optim.Optimizer, lr: float) -> None:
    """Set the learning rate of every group, times its own factor where it has one (muP)."""
    for group in optimizer.param_groups:
        group["lr"] = lr * group.get(RATE_FACTOR, 1.0)


def select_params(config: NeoxConfig) -> dict[str, Any]:
    """The parameters the type reads; ``require_trainable`` has refused any other that would have an effect."""
    given: dict[str, Any] = dict((config.optimizer or {}).get("params", {}))
    read = OPTIMIZER_PARAMS.get(config.optimizer_type, ())
    params = {name: given[name] for name in read if name in given}
    if "betas" in params:
        params["betas"] = tuple(params["betas"])
    return params
