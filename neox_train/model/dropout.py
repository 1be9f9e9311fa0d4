"""Dropout of hidden states between the layers."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager

import torch
import torch.nn.functional as F
from torch import nn


class HiddenDropout(nn.Module):
    """Dropout while training; ``stream`` makes the context that says which random stream it draws from."""

    def __init__(self, probability: float, stream: Callable[[], AbstractContextManager[None]]) -> None:
        super().__init__()
        self._probability, self._stream = probability, stream

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        """Map any shape to itself."""
        if not (self.training and self._probability):
            return hidden
        with self._stream():
            return F.dropout(hidden, self._probability, training=True)
