"""Adam with states in 8 bits: the one file that wraps bitsandbytes."""

from __future__ import annotations

from typing import Any

import torch

from neox_train.errors import ConfigError


def build_adam_8bit(
    groups: list[dict[str, Any]], *, lr: float, betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8
) -> torch.optim.Optimizer:
    """AdamW with block-wise 8-bit moments; tensors below 4096 elements keep 32-bit ones (the library's rule).

    Raises ConfigError where bitsandbytes is not installed.
    """
    try:
        import bitsandbytes
    except ImportError as error:
        raise ConfigError(
            "`use_bnb_optimizer: true` needs bitsandbytes, which is not installed; "
            "install the extra: pip install 'neox-train[bnb]'"
        ) from error
    return bitsandbytes.optim.AdamW8bit(groups, lr=lr, betas=betas, eps=eps)
