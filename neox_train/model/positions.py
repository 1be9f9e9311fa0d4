"""Positions that are added to the word embeddings: learned or sinusoidal."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

from neox_train.model.documents import count_from_start
from neox_train.model.layers import LayerFactory
from neox_train.model.sinusoidal import Sinusoidal


def add_positions(
    hidden: torch.Tensor,
    length: int,
    *,
    learned: nn.Module | None,
    sinusoidal: Sinusoidal | None,
    layers: LayerFactory,
    documents: torch.Tensor | None,
) -> torch.Tensor:
    """Word embeddings [batch, sequence or share, hidden] with the positions of a sequence of ``length`` tokens.

    With ``documents``, int64 [batch, sequence], positions count from the start of each token's document.
    """
    if learned is not None:
        starts = None if documents is None else count_from_start(documents)
        hidden = hidden + learned(length, starts)
    if sinusoidal is not None:
        table = sinusoidal.table(length, device=hidden.device, dtype=hidden.dtype)
        if documents is not None:
            table = F.embedding(count_from_start(documents), table)
        hidden = hidden + layers.share_sequence(table)
    return hidden
