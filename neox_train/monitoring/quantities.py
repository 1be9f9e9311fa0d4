"""Numbers as people read them: counts, sizes, times, shares; a dash where a value is not known."""

from __future__ import annotations

import math
from typing import TypeGuard

UNKNOWN = "–"


def format_count(value: float | None) -> str:
    """A count with three significant digits and K, M, B or T: 3.21M; small ones whole."""
    if not is_number(value):
        return UNKNOWN
    for limit, unit in ((1e12, "T"), (1e9, "B"), (1e6, "M"), (1e4, "K")):
        if abs(value) >= limit:
            scale = 1e3 if unit == "K" else limit
            return f"{_three_digits(value / scale)}{unit}"
    return format_integer(value)


def format_integer(value: float | None) -> str:
    """A whole number with thousands separated by thin spaces."""
    return f"{round(value):,}".replace(",", "\u202f") if is_number(value) else UNKNOWN


def format_decimal(value: float | None, digits: int = 3) -> str:
    """A number with a fixed number of decimals; scientific where it would show as zero."""
    if not is_number(value):
        return UNKNOWN
    if value and abs(value) < 0.5 * 10**-digits:
        return f"{value:.2e}"
    return f"{value:.{digits}f}"


def format_percent(value: float | None, digits: int = 1, *, signed: bool = False) -> str:
    """A share (0 to 1) in percent."""
    if not is_number(value):
        return UNKNOWN
    return f"{100 * value:+.{digits}f}\u202f%".replace("-", "−") if signed else f"{100 * value:.{digits}f}\u202f%"


def format_gib(value: float | None) -> str:
    """GiB with three significant digits; MiB below a tenth of one."""
    if not is_number(value):
        return UNKNOWN
    return f"{value * 1024:.0f} MiB" if abs(value) < 0.1 else f"{_three_digits(value)} GiB"


def format_bytes(value: float | None) -> str:
    """A size on disk in kB, MB or GB (powers of ten)."""
    if not is_number(value):
        return UNKNOWN
    for limit, unit in ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if value >= limit:
            return f"{_three_digits(value / limit)} {unit}"
    return f"{round(value)} B"


def format_seconds(value: float | None) -> str:
    """A duration: 42 s, 3 min 20 s, 5 h 02 min, 2 d 03 h."""
    if not is_number(value):
        return UNKNOWN
    seconds = round(value)
    if seconds < 60:
        return f"{value:.1f} s" if value < 10 else f"{seconds} s"
    if seconds < 3600:
        return f"{seconds // 60} min {seconds % 60:02d} s"
    if seconds < 86400:
        return f"{seconds // 3600} h {seconds % 3600 // 60:02d} min"
    return f"{seconds // 86400} d {seconds % 86400 // 3600:02d} h"


def is_number(value: object) -> TypeGuard[float]:
    """Whether a value read from JSON is a finite number."""
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def _three_digits(value: float) -> str:
    magnitude = abs(value)
    return f"{value:.2f}" if magnitude < 10 else f"{value:.1f}" if magnitude < 100 else f"{value:.0f}"
