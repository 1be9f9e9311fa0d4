"""What training supports today: the one table that says so."""

from __future__ import annotations

from typing import TYPE_CHECKING

from neox_train.config.hardware import require_hardware
from neox_train.config.keys import is_inactive, read_remedy, read_status
from neox_train.config.schema import NeoxConfig, NeoxKeys
from neox_train.errors import ConfigError, NotBuiltError

if TYPE_CHECKING:
    from neox_train.config.cluster import Cluster

SUPPORTED: dict[str, tuple[object, ...]] = {
    "zero_stage": (0, 1, 2),
    "pipe_parallel_size": (0, 1),
    "model_parallel_size": (1,),
    "norm": ("layernorm", "rmsnorm"),
    "pos_emb": ("rotary", "learned", "none"),
    "activation": ("gelu", "geglu", "swiglu", "relu", "silu", "swish"),
    "optimizer_type": ("adam", "adamw", "sgd"),
}
"""Values with an implementation, for keys that have both kinds."""

_SUPPORTED_LAYERS = ("global", "flash")


def list_unsupported(config: NeoxConfig) -> list[str]:
    """One phrase for each key whose value is known but not built: ``te_mha: true``."""
    problems = []
    for name, field in NeoxKeys.model_fields.items():
        if read_status(field) == "refused" and not is_inactive(field, getattr(config, name)):
            remedy = read_remedy(field)
            problems.append(f"{name}: {getattr(config, name)!r}" + (f" ({remedy})" if remedy else ""))
    for name, values in SUPPORTED.items():
        if getattr(config, name) not in values:
            known = ", ".join(str(value) for value in values)
            problems.append(f"{name}: {getattr(config, name)!r} (built: {known})")
    strange = sorted(set(config.attention_layers) - set(_SUPPORTED_LAYERS))
    if strange:
        problems.append(f"attention_config: {', '.join(strange)} (built: {', '.join(_SUPPORTED_LAYERS)})")
    for block in ("offload_optimizer", "offload_param"):
        if (config.zero_optimization or {}).get(block):
            problems.append(f"zero_optimization.{block}")
    return problems


def require_trainable(config: NeoxConfig, cluster: Cluster | None = None) -> None:
    """Raise NotBuiltError, one sentence naming every key, when the configuration needs what is not built.

    With a cluster also ConfigError when its device cannot run the configuration.
    """
    problems = list_unsupported(config)
    if problems:
        raise NotBuiltError(f"this configuration needs what is not built yet: {'; '.join(problems)}")
    if config.train_iters is None:
        raise ConfigError("train_iters is not set; training needs the number of optimizer steps")
    if cluster is not None:
        require_hardware(config, cluster)
