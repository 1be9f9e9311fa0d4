"""The collectives at the borders of tensor-parallel layers, each with its counterpart in the backward pass.

Hidden states are [batch, sequence, hidden]. Between the layers every rank holds all of them, or under sequence
parallelism its even share of the sequence (Korthikanti et al. 2022).
"""

from __future__ import annotations

from typing import Any, cast

import torch
import torch.distributed

from neox_train.model.parallel.group import TensorGroup

_SEQUENCE = 1


def copy_to_shards(values: torch.Tensor, group: TensorGroup) -> torch.Tensor:
    """The same values; their gradients are summed over the ranks."""
    return cast(torch.Tensor, _Copy.apply(values, group))


def sum_over_shards(partial: torch.Tensor, group: TensorGroup) -> torch.Tensor:
    """Sum of every rank's partial values."""
    return cast(torch.Tensor, _Sum.apply(partial, group))


def gather_sequence(share: torch.Tensor, group: TensorGroup) -> torch.Tensor:
    """The whole sequence from each rank's share; gradients are summed and shared out again."""
    return cast(torch.Tensor, _GatherSequence.apply(share, group))


def scatter_sequence_sum(partial: torch.Tensor, group: TensorGroup) -> torch.Tensor:
    """This rank's share of the sequence of the sum of every rank's partial values."""
    return cast(torch.Tensor, _ScatterSequence.apply(partial, group))


def gather_last(shard: torch.Tensor, group: TensorGroup) -> torch.Tensor:
    """All ranks' values side by side in the last dimension; without a gradient."""
    return _gather(shard.detach(), group, dim=-1)


class _Copy(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, values: torch.Tensor, group: TensorGroup) -> torch.Tensor:
        ctx.group = group
        return values.view_as(values)

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor, None]:
        # Autograd may hand the same gradient to another consumer: it must not be summed in place.
        return _sum(gradients[0].clone(memory_format=torch.contiguous_format), ctx.group), None


class _Sum(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, partial: torch.Tensor, group: TensorGroup) -> torch.Tensor:
        return _sum(partial.clone(memory_format=torch.contiguous_format), group)

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor, None]:
        return gradients[0], None


class _GatherSequence(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, share: torch.Tensor, group: TensorGroup) -> torch.Tensor:
        ctx.group = group
        return _gather(share, group, dim=_SEQUENCE)

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor, None]:
        return _scatter_sum(gradients[0], ctx.group, dim=_SEQUENCE), None


class _ScatterSequence(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, partial: torch.Tensor, group: TensorGroup) -> torch.Tensor:
        ctx.group = group
        return _scatter_sum(partial, group, dim=_SEQUENCE)

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor, None]:
        return _gather(gradients[0], ctx.group, dim=_SEQUENCE), None


def _sum(values: torch.Tensor, group: TensorGroup) -> torch.Tensor:
    torch.distributed.all_reduce(values, group=group.process_group)
    return values


def _gather(values: torch.Tensor, group: TensorGroup, *, dim: int) -> torch.Tensor:
    """Shards joined along ``dim``; the collective joins along the first dimension, so that one is moved there."""
    first = values.movedim(dim, 0).contiguous()
    gathered = first.new_empty((group.size * first.shape[0], *first.shape[1:]))
    torch.distributed.all_gather_into_tensor(gathered, first, group=group.process_group)
    return gathered.movedim(0, dim)


def _scatter_sum(values: torch.Tensor, group: TensorGroup, *, dim: int) -> torch.Tensor:
    first = values.movedim(dim, 0).contiguous()
    share = first.new_empty((first.shape[0] // group.size, *first.shape[1:]))
    torch.distributed.reduce_scatter_tensor(share, first, group=group.process_group)
    return share.movedim(0, dim)
