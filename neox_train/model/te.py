"""The one door to Transformer Engine: its modules, with a sentence where it is missing."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

from torch import nn

from neox_train.config.architecture import Architecture
from neox_train.errors import ConfigError, install_extra

if TYPE_CHECKING:
    from neox_train.config.fp8 import Fp8Recipe


def import_te() -> Any:
    """``transformer_engine.pytorch``; ConfigError where it is not installed or finds no GPU."""
    try:
        import transformer_engine.pytorch as te
    except (ImportError, OSError, RuntimeError) as error:
        raise ConfigError(
            "the te_* keys need Transformer Engine, which cannot be imported here "
            f"({str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__}); "
            f"on a machine with GPUs run {install_extra('te')}, or set the te_* keys to false"
        ) from error
    return te


def te_normalization(architecture: Architecture) -> str:
    """Transformer Engine's name of the architecture's norm; ConfigError for one it does not have."""
    names = {"layernorm": "LayerNorm", "te_layernorm": "LayerNorm", "rmsnorm": "RMSNorm", "te_rmsnorm": "RMSNorm"}
    if architecture.norm not in names:
        raise ConfigError(
            f"norm {architecture.norm} is not one of Transformer Engine's; set norm: layernorm or rmsnorm, or "
            "te_mha and te_layernorm_mlp to false"
        )
    return names[architecture.norm]


def build_te_norm(architecture: Architecture) -> nn.Module:
    """Transformer Engine's LayerNorm or RMSNorm; parameters under ``weight`` and ``bias`` like torch's."""
    te = import_te()
    kind = te.LayerNorm if te_normalization(architecture) == "LayerNorm" else te.RMSNorm
    norm: nn.Module = kind(architecture.hidden_size, eps=architecture.norm_epsilon)
    return norm


def fp8_context(recipe: Fp8Recipe) -> Callable[[], AbstractContextManager[Any]]:
    """Makes the context in which Transformer Engine's layers compute in FP8 by ``recipe``."""
    te = import_te()
    from transformer_engine.common import recipe as recipes

    settings = {**recipe.settings, "fp8_format": getattr(recipes.Format, recipe.fp8_format)}
    built = getattr(recipes, recipe.class_name)(**settings)
    return lambda: te.autocast(enabled=True, recipe=built)


def leave_fp8() -> AbstractContextManager[Any]:
    """The context of layers in 16 bits among others in FP8."""
    context: AbstractContextManager[Any] = import_te().autocast(enabled=False)
    return context
