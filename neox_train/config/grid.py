"""Who is where: the ranks of a training as a grid of pipeline stages, data-parallel replicas and tensor shards."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from typing import Literal

Axis = Literal["pp", "dp", "tp"]
AXES: tuple[Axis, ...] = ("pp", "dp", "tp")
"""Outermost first: tensor-parallel ranks are neighbours, so that they share a node; stages are furthest apart."""


@dataclass(frozen=True, slots=True)
class Place:
    """One rank's coordinate on each axis."""

    pp: int
    dp: int
    tp: int


@dataclass(frozen=True, kw_only=True, slots=True)
class GridShape:
    """Degrees of pipeline, data and tensor parallelism; rank = (pp x dp_size + dp) x tp_size + tp."""

    pp: int = 1
    dp: int = 1
    tp: int = 1

    @property
    def size(self) -> int:
        """Number of ranks."""
        return self.pp * self.dp * self.tp

    def place_of(self, rank: int) -> Place:
        """Coordinates of a rank."""
        outer, tp = divmod(rank, self.tp)
        pp, dp = divmod(outer, self.dp)
        return Place(pp, dp, tp)

    def rank_of(self, place: Place) -> int:
        """The rank at a place."""
        return (place.pp * self.dp + place.dp) * self.tp + place.tp

    def list_groups(self, *axes: Axis) -> list[tuple[int, ...]]:
        """Ranks that differ on ``axes`` alone, one tuple a group, in the order every rank must make the groups in."""
        fixed = [range(getattr(self, axis)) if axis not in axes else range(1) for axis in AXES]
        return [tuple(self._vary(corner, axes)) for corner in product(*fixed)]

    def _vary(self, corner: tuple[int, ...], axes: tuple[Axis, ...]) -> Iterator[int]:
        free = [
            range(getattr(self, axis)) if axis in axes else (start,) for axis, start in zip(AXES, corner, strict=True)
        ]
        for place in product(*free):
            yield self.rank_of(Place(*place))
