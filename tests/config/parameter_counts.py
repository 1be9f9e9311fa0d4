"""Counts that published model tables give."""

from __future__ import annotations

from neox_train.config.architecture import Architecture
from neox_train.config.parameters import list_parameters


def count_non_embedding_parameters(architecture: Architecture) -> int:
    """Exact number of trainable parameters outside the embedding and output matrices."""
    skipped = ("word_embeddings.", "position_embeddings.", "output.")
    return sum(p.count for p in list_parameters(architecture) if not p.name.startswith(skipped))
