"""Where documents begin in packed sequences."""

from __future__ import annotations

import torch


def number_documents(tokens: torch.Tensor, end: int) -> torch.Tensor:
    """The document of each token, int64 [batch, sequence], counted from 0; ``end`` closes the document it stands in."""
    ended = (tokens == end).long()
    return ended.cumsum(dim=1) - ended


def count_from_start(documents: torch.Tensor) -> torch.Tensor:
    """The place of each token in its document, int64 [batch, sequence], of what ``number_documents`` gave."""
    places = torch.arange(documents.shape[1], device=documents.device).expand_as(documents)
    begins = torch.ones_like(documents, dtype=torch.bool)
    begins[:, 1:] = documents[:, 1:] != documents[:, :-1]
    return places - torch.where(begins, places, 0).cummax(dim=1).values
