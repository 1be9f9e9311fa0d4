"""Normalisation layers by GPT-NeoX's names."""

from __future__ import annotations

from torch import nn

from neox_train.config.architecture import Architecture
from neox_train.errors import NotBuiltError

_LAYER_NORMS = ("layernorm", "te_layernorm")
_RMS_NORMS = ("rmsnorm", "te_rmsnorm")


def build_norm(architecture: Architecture) -> nn.Module:
    """LayerNorm, RMSNorm, or LayerNorm without parameters, over ``hidden_size``; NotBuiltError for other names."""
    width, epsilon = architecture.hidden_size, architecture.norm_epsilon
    if architecture.norm in _LAYER_NORMS:
        return nn.LayerNorm(width, eps=epsilon)
    if architecture.norm in _RMS_NORMS:
        return nn.RMSNorm(width, eps=epsilon)
    if architecture.norm == "non_parametric_layernorm":
        return nn.LayerNorm(width, eps=epsilon, elementwise_affine=False)
    known = ", ".join((*_LAYER_NORMS, *_RMS_NORMS, "non_parametric_layernorm"))
    raise NotBuiltError(f"norm: {architecture.norm!r} is not built here; choose one of {known}")
