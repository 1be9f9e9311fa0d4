"""The number formats that a search may change a configuration to, each as the keys that do it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from neox_train.config.fp8 import uses_fp8, uses_transformer_engine
from neox_train.config.schema import NeoxConfig
from neox_train.errors import ConfigError

ALLOWED = ("optimizer", "precision")
"""What of a training's numerics a search may change, where the user says so."""

_BLOCKS = {"bfloat16": "bf16", "fp16": "fp16"}


@dataclass(frozen=True, slots=True)
class PrecisionChange:
    """Keys laid over a configuration; none for its own number formats."""

    keys: tuple[tuple[str, Any], ...] = ()


def read_allowed(text: str) -> frozenset[str]:
    """``precision,optimizer``, one of them, or ``none``; raises ConfigError for anything else."""
    names = frozenset(name.strip() for name in text.split(",")) - {"none", ""}
    if names - set(ALLOWED) or not text.strip():
        raise ConfigError(f"--allow {text} is not known; write optimizer, precision, precision,optimizer, or none")
    return names


def list_precisions(base: NeoxConfig, allowed: frozenset[str]) -> list[PrecisionChange]:
    """The configuration's own formats first; where ``precision`` is allowed bfloat16, fp16 and FP8 in bfloat16 too."""
    changes = [PrecisionChange()]
    if "precision" not in allowed:
        return changes
    is_fp8 = uses_fp8(base)
    wide = {"te_fp8": False, "te_fp8_recipe": None, "te_fp8_mha": False} if is_fp8 else {}
    for name in ("bfloat16", "fp16"):
        if is_fp8 or base.precision != name:
            changes.append(PrecisionChange(tuple({**_set_format(base, name), **wide}.items())))
    if not is_fp8:
        layers = {} if uses_transformer_engine(base) else {"te_mha": True, "te_layernorm_mlp": True}
        changes.append(PrecisionChange(tuple({**_set_format(base, "bfloat16"), **layers, "te_fp8": True}.items())))
    return changes


def _set_format(base: NeoxConfig, name: str) -> dict[str, Any]:
    """``precision``, and the blocks of other formats that the configuration has switched on or off."""
    keys: dict[str, Any] = {} if base.precision == name else {"precision": name}
    for other, block in _BLOCKS.items():
        if keys and (getattr(base, block) or {}).get("enabled") is not None:
            keys[f"{block}.enabled"] = other == name
    return keys
