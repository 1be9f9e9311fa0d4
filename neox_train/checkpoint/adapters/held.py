"""What every kind of optimizer comes down to: tensors the base optimizer steps, and the parameters they hold."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch

Names = Mapping[torch.nn.Parameter, str]
"""Canonical name of each of the model's parameters."""


@dataclass(frozen=True, slots=True)
class Position:
    """This rank's coordinate and the degree on each axis: ``dp`` ranks hold the same weights."""

    dp: int
    dp_size: int
    tp: int = 0
    tp_size: int = 1
    pp: int = 0
    pp_size: int = 1


@dataclass(frozen=True, slots=True)
class Segment:
    """Elements ``start`` to ``start + length`` of a flattened parameter, at ``offset`` of the tensor holding them."""

    name: str
    start: int
    length: int
    offset: int


@dataclass(frozen=True, slots=True)
class Held:
    """One tensor of the base optimizer: fp32 master weights, whole or this rank's partition of a flat group."""

    tensor: torch.Tensor
    segments: list[Segment]
    names: list[str]
    """All parameters of its flat group, those of other ranks' partitions too: they share step counts."""
    group: int


@dataclass(frozen=True, kw_only=True)
class EngineState:
    """Everything of a DeepSpeed engine that a checkpoint holds, whatever the kind of its optimizer."""

    kind: str
    optimizer: torch.optim.Optimizer
    """The base optimizer, whose ``state`` is keyed by the held tensors."""
    held: list[Held]
    replicated: bool
    """Whether every data-parallel rank holds the same tensors."""
    refresh: Callable[[], None]
    """Rebuild the weights that forward reads from the master weights (collective)."""
    position: Position
    copies: frozenset[str] = frozenset()
    """Parameters that another stage holds too and writes."""
    loss_scaler: Any = None
    unlink: Callable[[], None] = field(default=lambda: None)
    """Called after optimizer states were replaced, so that the wrapper looks them up again."""


def lay_out(parameters: Iterable[tuple[str, int]], begin: int, end: int) -> list[Segment]:
    """Segments of a window ``[begin, end)`` over parameters laid one after another in a flat buffer.

    ``parameters`` are (name, number of elements) in the buffer's order; what lies past them is alignment padding.
    """
    segments, position = [], 0
    for name, count in parameters:
        first, last = max(position, begin), min(position + count, end)
        if first < last:
            segments.append(Segment(name, first - position, last - first, first - begin))
        position += count
    return segments


def name_group(parameters: Iterable[torch.nn.Parameter], names: Names) -> list[tuple[str, int]]:
    """(name, number of elements) of each parameter of a group."""
    return [(names[parameter], parameter.numel()) for parameter in parameters]
