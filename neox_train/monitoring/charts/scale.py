"""Axes: ranges with room, round tick values, and their labels."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

_UNITS = ((1e9, 1e9, "B"), (1e6, 1e6, "M"), (1e4, 1e3, "K"))
_STEPS = (1, 2, 2.5, 5, 10)


@dataclass(frozen=True)
class Scale:
    """A linear map from values in [low, high] to pixels in [start, stop]."""

    low: float
    high: float
    start: float
    stop: float

    def __call__(self, value: float) -> float:
        """Pixel position of a value."""
        return self.start + (value - self.low) / (self.high - self.low) * (self.stop - self.start)


def value_range(values: Iterable[float], *, from_zero: bool = False) -> tuple[float, float]:
    """Lowest and highest value with 4 percent of room; (0, 1) for no values, a unit around a constant."""
    seen = list(values)
    low, high = (min(seen), max(seen)) if seen else (0.0, 1.0)
    if from_zero:
        low, high = min(low, 0.0), max(high, 0.0)
    if low == high:
        room = abs(low) * 0.1 or 0.5
        return low - (0 if from_zero and low == 0 else room), high + room
    room = 0.04 * (high - low)
    return (low if from_zero and low == 0 else low - room), high + room


def tick_values(low: float, high: float, count: int) -> list[float]:
    """About ``count`` round values between ``low`` and ``high``."""
    rough = (high - low) / max(count, 1)
    power = 10.0 ** math.floor(math.log10(rough))
    step = power * min(_STEPS, key=lambda factor: abs(math.log(factor * power / rough)))
    first = math.ceil(low / step - 1e-9)
    last = math.floor(high / step + 1e-9)
    return [index * step for index in range(first, last + 1)]


def tick_labels(ticks: Sequence[float]) -> list[str]:
    """Labels with as many decimals as tell neighbours apart; K and M for large, powers for tiny values."""
    if not ticks:
        return []
    top = max(abs(tick) for tick in ticks)
    if 0 < top < 1e-3:
        return _scientific_labels(ticks)
    divisor, unit = next(((size, name) for limit, size, name in _UNITS if top >= limit), (1.0, ""))
    step = (ticks[1] - ticks[0]) / divisor if len(ticks) > 1 else top / divisor
    digits = next((d for d in range(12) if abs(round(step, d) - step) < step * 1e-3), 12)
    return ["0" if tick == 0 else f"{tick / divisor:.{digits}f}{unit}".replace("-", "−") for tick in ticks]


def _scientific_labels(ticks: Sequence[float]) -> list[str]:
    for digits in range(12):
        labels = ["0" if tick == 0 else _scientific(tick, digits) for tick in ticks]
        if len(set(labels)) == len(ticks):
            break
    return labels


def _scientific(value: float, digits: int) -> str:
    mantissa, exponent = f"{value:.{digits}e}".split("e")
    return f"{mantissa}e{int(exponent)}".replace("-", "−")
