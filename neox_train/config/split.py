"""GPT-NeoX's ``split`` string: the shares of train, validation and test in .bin/.idx files."""

from __future__ import annotations

import math

from neox_train.config.conflict import ConflictError

_WANTED = "one to three numbers between commas are wanted, the shares of train, validation and test, as '969, 30, 1'"


def read_split(split: str) -> tuple[float, float, float]:
    """Shares of train, validation and test, of any sum; a missing one is 0. Raises ConflictError."""
    try:
        shares = [float(part) for part in split.replace("/", ",").split(",")]
    except ValueError:
        raise ConflictError(f"split is {split!r}; {_WANTED}", "split") from None
    if len(shares) > 3:
        raise ConflictError(f"split is {split!r}, {len(shares)} numbers; {_WANTED}", "split")
    train, validation, test = [*shares, 0.0, 0.0][:3]
    if not all(math.isfinite(share) and share >= 0 for share in shares):
        raise ConflictError(f"split is {split!r}; finite shares of 0 or more are wanted", "split")
    if train <= 0:
        raise ConflictError(f"split is {split!r}; a first number above 0, the share to train on, is wanted", "split")
    return train, validation, test
