"""Rounding to the nearest code of bitsandbytes' 8-bit code books, by two looked-up numbers instead of a search."""

from __future__ import annotations

import torch

_MANTISSA_BITS = 7
_DROPPED_BITS = 23 - _MANTISSA_BITS
_LOWEST_KEY = (127 - 24) << _MANTISSA_BITS
"""Of 2**-24: every smaller magnitude is nearest to zero, as the books' lowest bound is 1.6e-7."""
_KEYS = (127 << _MANTISSA_BITS) - _LOWEST_KEY + 1
"""Up to that of the magnitude 1."""


class CodeBook:
    """A sorted code book, uint8 to numbers in [-1, 1] or [0, 1], as fp32 tables of its device."""

    def __init__(self, values: torch.Tensor) -> None:
        self.values = values
        """[256]; the code of zero is 127 in a signed book (``ZERO``), 0 in an unsigned one."""
        magnitudes = values[int((values == 0).nonzero()) :].double()
        middles = (magnitudes[:-1] + magnitudes[1:]) / 2
        self.bounds = torch.cat([middles, middles.new_tensor([2.0])]).float()
        """Where each code above zero, counted from it, ends."""
        lowest = ((torch.arange(_KEYS, dtype=torch.int32, device=values.device) + _LOWEST_KEY) << _DROPPED_BITS).view(
            torch.float32
        )
        lowest[0] = 0.0
        self.starts = torch.bucketize(lowest, self.bounds, right=True, out_int32=True).to(torch.uint8)
        """The code, counted from zero, of the smallest magnitude with each key: exponent and first bits of the
        mantissa of an fp32 number. No key spans more than one bound."""


ZERO = 127
"""Code of zero in bitsandbytes' signed book; the negative codes below it mirror those above, but for the one of 1."""


def encode(magnitudes: torch.Tensor, starts: torch.Tensor, bounds: torch.Tensor) -> torch.Tensor:
    """Codes, counted from that of zero, nearest to fp32 ``magnitudes`` in [0, 1]; int32."""
    keys = ((magnitudes.view(torch.int32) >> _DROPPED_BITS) - _LOWEST_KEY).clamp(0, _KEYS - 1)
    codes = starts[keys].int()
    return codes + (magnitudes >= bounds[codes]).int()


def encode_signed(numbers: torch.Tensor, starts: torch.Tensor, bounds: torch.Tensor) -> torch.Tensor:
    """Codes nearest to fp32 ``numbers`` in [-1, 1], int32; one below zero keeps its sign, as bitsandbytes' do."""
    steps = encode(numbers.abs(), starts, bounds)
    return torch.where(numbers < 0, ZERO - steps.clamp(1, ZERO), ZERO + steps)
