"""How Transformer Engine's modules are cut over tensor-parallel ranks, by their own collectives."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed

from neox_train.model.parallel.group import TensorGroup
from neox_train.model.parallel.layers import mark_as_cut


@dataclass(frozen=True, kw_only=True, slots=True)
class TESplit:
    """The ranks that share each module; ``sequence_parallel`` shares the sequence out between the modules."""

    group: TensorGroup
    sequence_parallel: bool = False

    @property
    def arguments(self) -> dict[str, Any]:
        """What Transformer Engine's modules take about it."""
        if self.group.size == 1:
            return {}
        return {
            "tp_group": self.group.process_group,
            "tp_size": self.group.size,
            "sequence_parallel": self.sequence_parallel,
        }

    def mark(self, *, cut: tuple[torch.Tensor | None, ...] = (), shared: tuple[torch.Tensor | None, ...] = ()) -> None:
        """Tell DeepSpeed which parameters are shards, and sum the gradients of those that every rank holds.

        Under sequence parallelism a norm and a bias after the collective see this rank's share of the tokens only, and
        Transformer Engine leaves their sum to its caller.
        """
        if self.group.size == 1:
            return
        mark_as_cut(*cut)
        if self.sequence_parallel:
            for parameter in shared:
                if parameter is not None:
                    parameter.register_hook(self._sum)

    def _sum(self, gradient: torch.Tensor) -> torch.Tensor:
        whole = gradient.clone(memory_format=torch.contiguous_format)
        torch.distributed.all_reduce(whole, group=self.group.process_group)
        return whole

    def order_sequence(self, gathered: torch.Tensor) -> torch.Tensor:
        """[batch, sequence, ...] of what a module gathered along the first dimension, [size x batch, share, ...]."""
        if not self._reorders:
            return gathered
        shares = gathered.unflatten(0, (self.group.size, -1))
        return shares.transpose(0, 1).flatten(1, 2)

    def order_shares(self, whole: torch.Tensor) -> torch.Tensor:
        """The inverse of ``order_sequence``, for a module that cuts along the first dimension."""
        if not self._reorders:
            return whole
        shares = whole.unflatten(1, (self.group.size, -1))
        return shares.transpose(0, 1).flatten(0, 1)

    @property
    def _reorders(self) -> bool:
        return self.sequence_parallel and self.group.size > 1


ALONE = TESplit(group=TensorGroup(rank=0, size=1))
"""One rank with whole modules."""
