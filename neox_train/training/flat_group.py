"""One optimizer group whose weights, gradients and fp32 master weights each lie in one buffer."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

import torch
from torch import nn

from neox_train.memory.states import FLAT_ALIGNMENT


class FlatGroup:
    """The parameters of a group laid one after another; this rank owns one partition of the master weights.

    ``shards`` ranks share the masters (1: every rank holds all). Before ``cast`` the model's parameters are fp32
    tensors of their own; afterwards they are views of one buffer in the training's number format.
    """

    def __init__(self, parameters: Sequence[nn.Parameter], *, shards: int, shard: int) -> None:
        self.parameters = list(parameters)
        self.shards = shards
        elements = sum(parameter.numel() for parameter in self.parameters)
        multiple = shards * FLAT_ALIGNMENT
        self.length = -(-elements // multiple) * multiple
        self.share = self.length // shards
        self.begin = shard * self.share
        # The fp32 parameters still stand beside it: nothing but the own partition is allocated here.
        master = torch.zeros(self.share, dtype=torch.float32, device=self.parameters[0].device)
        with torch.no_grad():
            for parameter, start in zip(self.parameters, self._list_starts(), strict=True):
                first, last = max(start, self.begin), min(start + parameter.numel(), self.begin + self.share)
                if first < last:
                    master[first - self.begin : last - self.begin] = parameter.reshape(-1)[first - start : last - start]
        self.master = nn.Parameter(master, requires_grad=False)
        self.weights = torch.empty(0)
        self.gradients = torch.empty(0)

    def cast(self, dtype: torch.dtype) -> None:
        """Make the model's parameters views of one ``dtype`` buffer."""
        self.weights = torch.zeros(self.length, dtype=dtype, device=self.master.device)
        for parameter, view in zip(self.parameters, self.views(self.weights), strict=True):
            view.copy_(parameter.data)
            parameter.data = view

    def allocate_gradients(self, dtype: torch.dtype) -> None:
        """Set up the gradients' buffer; call it when no fp32 parameter stands any more."""
        self.gradients = torch.zeros(self.length, dtype=dtype, device=self.master.device)

    def views(self, flat: torch.Tensor) -> list[torch.Tensor]:
        """The part of each parameter in a buffer of the group's length, in the parameter's shape."""
        return [
            flat[start : start + parameter.numel()].view(parameter.shape)
            for parameter, start in zip(self.parameters, self._list_starts(), strict=True)
        ]

    def partition(self, flat: torch.Tensor) -> torch.Tensor:
        """This rank's part of a buffer of the group's length."""
        return flat[self.begin : self.begin + self.share]

    def _list_starts(self) -> list[int]:
        return list(accumulate((parameter.numel() for parameter in self.parameters[:-1]), initial=0))
