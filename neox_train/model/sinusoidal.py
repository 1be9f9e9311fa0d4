"""Sinusoidal positions, added to the word embeddings (Vaswani et al., arXiv 1706.03762, section 3.5)."""

from __future__ import annotations

import torch

from neox_train.errors import ConfigError

_BASE = 10_000.0


class Sinusoidal:
    """Sines in the first half of the hidden dimensions and cosines in the second, as GPT-NeoX lays them out.

    Not a module, for the reasons of ``Rotary``. Raises ConfigError for an odd width.
    """

    def __init__(self, width: int) -> None:
        if width % 2:
            raise ConfigError(f"hidden_size is {width}; pos_emb: sinusoidal needs an even one")
        self._width = width

    def table(self, length: int, *, device: torch.device, dtype: torch.dtype) -> torch.Tensor:
        """[length, width] for positions 0 to ``length`` - 1; angles in fp32."""
        exponents = torch.arange(0, self._width, 2, dtype=torch.float32, device=device) / self._width
        angles = torch.outer(torch.arange(length, dtype=torch.float32, device=device), _BASE**-exponents)
        return torch.cat((angles.sin(), angles.cos()), dim=-1).to(dtype)
