"""1-bit optimizers: named by ``gradient_compression`` or, as in GPT-NeoX files, by ``optimizer.type``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from neox_train.config.conflict import ConflictError
from neox_train.config.whole_steps import choose_whole_steps

if TYPE_CHECKING:
    from neox_train.config.schema import NeoxConfig

ONE_BIT_TYPES = {"onebit_adam": "onebitadam", "zero_one_adam": "zerooneadam", "onebit_lamb": "onebitlamb"}
"""Optimizer type, in small letters, of each method."""
FURTHER_STATES = {"onebit_adam": 0, "zero_one_adam": 1, "onebit_lamb": 2}
"""Numbers a weight that each method keeps beside two moments and rests: 0/1 Adam adds up momentum between exchanges;
1-bit LAMB has second moments of this rank's own gradients, and DeepSpeed's of gradients rebuilt from signs."""
_WRITTEN = {"onebit_adam": "OneBitAdam", "zero_one_adam": "ZeroOneAdam", "onebit_lamb": "OneBitLamb"}


def derive_one_bit(method: str, optimizer_type: str) -> tuple[str, str]:
    """``gradient_compression`` and the optimizer's type that hold together; ConflictError where they contradict.

    ``optimizer.type: Adam`` stands for the optimizer that the method names.
    """
    by_type = {kind: name for name, kind in ONE_BIT_TYPES.items()}
    implied = by_type.get(optimizer_type)
    if implied is None and method not in ONE_BIT_TYPES:
        return method, optimizer_type
    if implied is None:
        if optimizer_type in ("adam", "adamw"):
            return method, ONE_BIT_TYPES[method]
        raise ConflictError(
            f"gradient_compression {method} is an optimizer of its own, and optimizer.type is '{optimizer_type}'; "
            f"set optimizer.type: {_WRITTEN[method]}",
            "optimizer.type",
            "gradient_compression",
        )
    if method not in ("none", implied):
        raise ConflictError(
            f"optimizer.type {_WRITTEN[implied]} is gradient_compression {implied}, and gradient_compression is "
            f"'{method}'; remove one of the two",
            "gradient_compression",
            "optimizer.type",
        )
    return implied, optimizer_type


def uses_one_bit(config: NeoxConfig) -> bool:
    """Whether the optimizer exchanges signs."""
    return config.optimizer_type in ONE_BIT_TYPES.values()


def choose_one_bit_warmup(config: NeoxConfig) -> int:
    """Steps with whole gradients: ``freeze_step`` (0/1 Adam: ``var_freeze_step``) of optimizer.params where it is
    given, else a fifth of the training, and no less than the learning rate's warm-up.
    """
    params: dict[str, Any] = dict((config.optimizer or {}).get("params", {}))
    given = params.get("var_freeze_step" if config.optimizer_type == "zerooneadam" else "freeze_step")
    return choose_whole_steps(config) if given is None else int(given)
