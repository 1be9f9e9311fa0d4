"""Rotary position embedding, half-rotation form, on the leading dimensions of each head."""

from __future__ import annotations

import torch

from neox_train.errors import ConfigError

RotaryTables = tuple[torch.Tensor, torch.Tensor]
"""Cosines and sines, fp32 [sequence, 1, rotary_dim / 2]: one value a position and rotating pair."""


class Rotary:
    """The cosines and sines of one model.

    Not a module and without buffers: a cast of the model to 16 bits must not round the angles, and no checkpoint
    should hold them.
    """

    def __init__(self, rotary_dim: int, base: float) -> None:
        if rotary_dim <= 0 or rotary_dim % 2:
            raise ConfigError(
                f"rotary_pct gives {rotary_dim} rotating dimensions of each head, an even number above 0 is wanted; "
                "choose another rotary_pct or head count"
            )
        self._rotary_dim = rotary_dim
        self._base = base
        self._kept: dict[torch.device, RotaryTables] = {}

    def tables(self, length: int, device: torch.device) -> RotaryTables:
        """Tables for positions 0 to ``length`` - 1, kept between calls."""
        kept = self._kept.get(device)
        if kept is None or kept[0].shape[0] < length:
            # Tables made inside inference mode could not be used by a later training step.
            with torch.inference_mode(False), torch.no_grad():
                kept = self._compute(length, device)
            self._kept[device] = kept
        cosines, sines = kept
        return cosines[:length], sines[:length]

    def _compute(self, length: int, device: torch.device) -> RotaryTables:
        exponents = torch.arange(0, self._rotary_dim, 2, dtype=torch.float32, device=device) / self._rotary_dim
        frequencies = 1.0 / (self._base**exponents)
        positions = torch.arange(length, dtype=torch.float32, device=device)
        angles = torch.outer(positions, frequencies).unsqueeze(1)
        return angles.cos(), angles.sin()


def apply_rotary(heads: torch.Tensor, tables: RotaryTables) -> torch.Tensor:
    """Rotate [batch, sequence, heads, head_dim] by position, in fp32; dimensions past the tables' pass unchanged."""
    cosines, sines = tables
    half = cosines.shape[-1]
    first = heads[..., :half].float()
    second = heads[..., half : 2 * half].float()
    rotated = torch.cat((first * cosines - second * sines, second * cosines + first * sines), dim=-1)
    rotated = rotated.to(heads.dtype)
    if 2 * half == heads.shape[-1]:
        return rotated
    return torch.cat((rotated, heads[..., 2 * half :]), dim=-1)
