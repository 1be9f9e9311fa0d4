"""Which parameters an optimizer treats alike: the groups that training builds and the memory estimate counts."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from neox_train.config.parameters import Parameter

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
    table: Iterable[Parameter], *, decay: bool, embeddings_apart: bool = False, matrices_apart: bool = False
) -> list[OptimizerGroup]:
    """The groups in a fixed order, empty ones left out.

    With ``decay`` matrices decay (embeddings too, as GPT-NeoX) and biases and norms do not, each kind a group.
    """
    members: dict[tuple[bool, bool, bool], list[Parameter]] = {}
    for parameter in table:
        is_embedding = embeddings_apart and parameter.name.startswith(_EMBEDDINGS)
        is_matrix = matrices_apart and parameter.is_hidden_matrix
        members.setdefault((is_embedding, is_matrix, decay and parameter.decays), []).append(parameter)
    return [
        OptimizerGroup(parameters=tuple(found), decays=decays, is_embedding=is_embedding, is_hidden_matrix=is_matrix)
        for (is_embedding, is_matrix, decays), found in sorted(members.items(), key=lambda item: item[0], reverse=True)
    ]
