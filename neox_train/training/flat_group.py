"""One optimizer group whose weights, gradients and fp32 master weights each lie in one buffer."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import nn

_ALIGNMENT_ELEMENTS = 128
"""Each rank's partition starts on a multiple of this, so that collectives and copies move whole cache lines."""


class FlatGroup:
    """The parameters of a group laid one after another; this rank owns one partition of the master weights.

    ``shards`` ranks share the masters (1: every rank holds all). Before ``cast`` the model's parameters are fp32
    tensors of their own; afterwards they are views of one buffer in the training's number format.
    """

    def __init__(self, parameters: Sequence[nn.Parameter], *, shards: int, shard: int) -> None:
        self.parameters = list(parameters)
        self.shards = shards
        elements = sum(parameter.numel() for parameter in self.parameters)
        multiple = shards * _ALIGNMENT_ELEMENTS
        self.length = -(-elements // multiple) * multiple
        self.share = self.length // shards
        self.begin = shard * self.share
        whole = torch.zeros(self.length, dtype=torch.float32, device=self.parameters[0].device)
        with torch.no_grad():
            for parameter, view in zip(self.parameters, self.views(whole), strict=True):
                view.copy_(parameter)
        # A clone only where the buffer is cut: the whole of it would otherwise stay in memory behind the partition.
        self.master = nn.Parameter(self.partition(whole).clone() if shards > 1 else whole, requires_grad=False)
        self.weights = torch.empty(0)
        self.gradients = torch.empty(0)

    def cast(self, dtype: torch.dtype, gradient_dtype: torch.dtype) -> None:
        """Make the model's parameters views of one ``dtype`` buffer and set up the gradients' buffer."""
        self.weights = torch.zeros(self.length, dtype=dtype, device=self.master.device)
        self.gradients = torch.zeros(self.length, dtype=gradient_dtype, device=self.master.device)
        for parameter, view in zip(self.parameters, self.views(self.weights), strict=True):
            view.copy_(parameter.data)
            parameter.data = view

    def views(self, flat: torch.Tensor) -> list[torch.Tensor]:
        """The part of each parameter in a buffer of the group's length, in the parameter's shape."""
        views, offset = [], 0
        for parameter in self.parameters:
            views.append(flat[offset : offset + parameter.numel()].view(parameter.shape))
            offset += parameter.numel()
        return views

    def partition(self, flat: torch.Tensor) -> torch.Tensor:
        """This rank's part of a buffer of the group's length."""
        return flat[self.begin : self.begin + self.share]
