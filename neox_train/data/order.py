"""The order of training samples: a seeded permutation computed index by index, without a table or a cache file."""

from __future__ import annotations

import hashlib
from functools import lru_cache
from typing import Protocol

from neox_train.errors import DataError

_ROUNDS = 8
_MASK_64 = (1 << 64) - 1


class Order(Protocol):
    """Which window each sample of a training reads."""

    def __getitem__(self, sample: int) -> int: ...


class Permutation:
    """A pseudo-random permutation of range(size) in O(1) memory.

    A balanced Feistel network permutes the smallest domain of 4^k numbers that covers the range (a Feistel network is
    a bijection whatever its round function); an image outside the range is permuted again until it falls inside
    (cycle-walking), which is again a bijection and takes fewer than four steps on average.
    """

    def __init__(self, size: int, seed: int, epoch: int = 0) -> None:
        if size < 1:
            raise ValueError(f"a permutation of {size} elements")
        self.size = size
        self._half_bits = max(1, ((size - 1).bit_length() + 1) // 2)
        self._half_mask = (1 << self._half_bits) - 1
        key = hashlib.blake2b(f"neox-train sample order {seed} {epoch}".encode(), digest_size=8 * _ROUNDS).digest()
        self._keys = tuple(int.from_bytes(key[8 * i : 8 * i + 8], "little") for i in range(_ROUNDS))

    def __getitem__(self, index: int) -> int:
        if not 0 <= index < self.size:
            raise IndexError(f"index {index} of a permutation of {self.size}")
        value = self._permute(index)
        while value >= self.size:
            value = self._permute(value)
        return value

    def _permute(self, value: int) -> int:
        left, right = value >> self._half_bits, value & self._half_mask
        for key in self._keys:
            left, right = right, left ^ (_mix(right ^ key) & self._half_mask)
        return left << self._half_bits | right


def _mix(value: int) -> int:
    """Scramble 64 bits (the finaliser of the SplitMix64 generator)."""
    value = (value ^ (value >> 30)) * 0xBF58476D1CE4E5B9 & _MASK_64
    value = (value ^ (value >> 27)) * 0x94D049BB133111EB & _MASK_64
    return value ^ (value >> 31)


class SampleOrder:
    """Which window the k-th sample of a training reads, for every k >= 0.

    Epoch e covers samples e*num_windows to (e+1)*num_windows with a permutation of its own. Nothing but the number of
    windows and the seed enters: not the ranks, the micro-batch, the accumulation, nor how long the training is.
    """

    def __init__(self, num_windows: int, seed: int) -> None:
        if num_windows < 1:
            raise DataError(
                "the train split is shorter than one window of seq_length + 1 tokens; "
                "use more text or set `seq_length` lower"
            )
        self.num_windows = num_windows
        self.seed = seed
        self._epoch = lru_cache(maxsize=2)(lambda epoch: Permutation(num_windows, seed, epoch))

    def __getitem__(self, sample: int) -> int:
        epoch, index = divmod(sample, self.num_windows)
        return self._epoch(epoch)[index]
