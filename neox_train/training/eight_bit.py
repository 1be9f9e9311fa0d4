"""Adam and Lion with states in 8 bits: the one file that wraps bitsandbytes."""

from __future__ import annotations

from typing import Any

import torch

from neox_train.errors import ConfigError, install_extra
from neox_train.training.parameter_groups import STATE_BITS


def build_8bit(kind: str, groups: list[dict[str, Any]], *, paged: bool, **params: Any) -> torch.optim.Optimizer:
    """AdamW or Lion with block-wise 8-bit states; tensors below 4096 elements keep 32 bits (the library's rule).

    So do groups that say so by ``state_bits``: bitsandbytes advises it for embeddings, whose gradients are uneven.
    ``paged`` lets CUDA move states to the host when the GPU is full. Raises ConfigError where bitsandbytes is missing.
    """
    try:
        import bitsandbytes
    except ImportError as error:
        raise ConfigError(
            f"`use_bnb_optimizer: true` needs bitsandbytes, which is not installed; run {install_extra('bnb')}"
        ) from error
    library = bitsandbytes.optim.Lion8bit if kind == "lion" else bitsandbytes.optim.AdamW8bit
    built: torch.optim.Optimizer = type(library.__name__, (_BitsByGroup, library), {})(groups, is_paged=paged, **params)
    return built


class _BitsByGroup:
    """Reads the bits of a group's states off the group, because ZeRO replaces the tensors that the library knows."""

    def get_config(self, gindex: int, pindex: int, group: dict[str, Any]) -> dict[str, Any]:
        config: dict[str, Any] = super().get_config(gindex, pindex, group)  # type: ignore[misc]
        return {**config, "optim_bits": group.get(STATE_BITS, config["optim_bits"])}
