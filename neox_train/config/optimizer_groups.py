"""Which parameters an optimizer treats alike: the groups that training builds and the memory estimate counts."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeVar

from neox_train.config.parameters import Parameter

EIGHT_BIT_GROUP_ELEMENTS = 2**30
"""Elements of a group with 8-bit states, at most: a group is one flat tensor, and bitsandbytes' kernels count a
tensor's elements in signed 32-bit integers (0.50.2 fails with "invalid argument" above)."""

_ALIGNED_ELEMENTS = 64
"""128 bytes of 16-bit numbers."""

T = TypeVar("T")

_EMBEDDINGS = ("word_embeddings.", "position_embeddings.")


@dataclass(frozen=True, kw_only=True, slots=True)
class OptimizerGroup:
    """Parameters in the canonical table's order."""

    parameters: tuple[Parameter, ...]
    decays: bool
    is_embedding: bool = False
    """Embedding tables in a group of their own, whose states stay in 32 bits beside 8-bit ones."""
    is_hidden_matrix: bool = False
    """The layers' matrices in a group of their own: Muon steps them, muP has a learning rate for them."""


def cut_groups(
    table: Iterable[Parameter], *, decay: bool, eight_bit: bool = False, matrices_apart: bool = False
) -> list[OptimizerGroup]:
    """The groups in a fixed order, empty ones left out.

    With ``decay`` matrices decay (embeddings too, as GPT-NeoX) and biases and norms do not, each kind a group. With
    ``eight_bit`` embeddings stand apart, and no group has more than ``EIGHT_BIT_GROUP_ELEMENTS``.
    """
    members: dict[tuple[bool, bool, bool], list[Parameter]] = {}
    for parameter in table:
        is_embedding = eight_bit and parameter.name.startswith(_EMBEDDINGS)
        is_matrix = matrices_apart and parameter.is_hidden_matrix
        members.setdefault((is_embedding, is_matrix, decay and parameter.decays), []).append(parameter)
    return [
        OptimizerGroup(parameters=part, decays=decays, is_embedding=is_embedding, is_hidden_matrix=is_matrix)
        for (is_embedding, is_matrix, decays), found in sorted(members.items(), key=lambda item: item[0], reverse=True)
        for part in (_cut_by_size(found) if eight_bit else [tuple(found)])
    ]


def _cut_by_size(parameters: list[Parameter]) -> list[tuple[Parameter, ...]]:
    """In their order, each part within ``EIGHT_BIT_GROUP_ELEMENTS`` unless one parameter alone is larger."""
    parts: list[list[Parameter]] = []
    elements = 0
    for parameter in parameters:
        if not parts or elements + parameter.count > EIGHT_BIT_GROUP_ELEMENTS:
            parts.append([])
            elements = 0
        parts[-1].append(parameter)
        elements += parameter.count
    return [tuple(part) for part in parts]


def put_aligned_first(members: Iterable[T], *, count: Callable[[T], int]) -> list[T]:
    """A rank's tensors of one group, those of odd sizes last; ``count`` gives the elements of one.

    A group is one flat buffer, and what follows an odd size in it is not aligned. torch's own norms read their weights
    by vectors of 16 bytes and end with "misaligned address" (2.11: a bias of 2730 before the weight of a norm);
    compiled layers and matrix products cope.
    """
    return sorted(members, key=lambda member: count(member) % _ALIGNED_ELEMENTS != 0)
