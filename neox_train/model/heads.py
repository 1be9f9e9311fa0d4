"""From the fused projection to rotated queries and keys, and values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from neox_train.model.rotary import RotaryTables, apply_rotary

Heads = tuple[torch.Tensor, torch.Tensor, torch.Tensor]

_compiled: tuple[Callable[..., Heads], Callable[..., torch.Tensor]] | None = None


def fuse_rotation(wanted: bool, *, backend: str = "inductor") -> None:
    """Let every later split of this process rotate in one compiled kernel each way, or operation by operation.

    For blocks that are not compiled as a whole; ``backend`` is torch.compile's.
    """
    global _compiled
    _compiled = None
    if wanted:
        split, merge = (
            torch.compile(function, fullgraph=True, dynamic=False, backend=backend) for function in (_split, _merge)
        )
        _compiled = split, merge


def split_heads(groups: torch.Tensor, rotary: RotaryTables | None, *, norm: nn.Module | None = None) -> Heads:
    """Queries, keys (both normed over all heads, then rotated) and values, each [batch, sequence, heads, head_dim].

    ``groups`` [batch, sequence, key-value groups, queries a group + 2, head_dim] holds for each group its queries, its
    key and its value.
    """
    if norm is not None:
        queries, keys, values = _cut(groups)
        queries, keys = (norm(heads.flatten(2)).view_as(heads) for heads in (queries, keys))
        if rotary is not None:
            queries, keys = apply_rotary(queries, rotary), apply_rotary(keys, rotary)
        return queries, keys, values
    if rotary is None:
        return _cut(groups)
    split: Heads = _SplitRotate.apply(groups, *rotary)
    return split


def _cut(groups: torch.Tensor) -> Heads:
    batch, sequence, _, _, head_dim = groups.shape
    return groups[..., :-2, :].reshape(batch, sequence, -1, head_dim), groups[..., -2, :], groups[..., -1, :]


class _SplitRotate(torch.autograd.Function):
    """Its gradient is written in one pass; that of three slices would be three zero-filled tensors, added up."""

    @staticmethod
    def forward(ctx: Any, groups: torch.Tensor, cosines: torch.Tensor, sines: torch.Tensor) -> Heads:
        ctx.save_for_backward(cosines, sines)
        split = _split if _compiled is None else _compiled[0]
        return split(groups, cosines, sines)

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor, None, None]:
        merge = _merge if _compiled is None else _compiled[1]
        return merge(*gradients, *ctx.saved_tensors), None, None


def _split(groups: torch.Tensor, cosines: torch.Tensor, sines: torch.Tensor) -> Heads:
    queries, keys, values = _cut(groups)
    # A copy of the values lets the projection go, three times their size, before the backward pass.
    return (
        apply_rotary(queries, (cosines, sines)),
        apply_rotary(keys, (cosines, sines)),
        values.clone(memory_format=torch.contiguous_format),
    )


def _merge(
    queries: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, cosines: torch.Tensor, sines: torch.Tensor
) -> torch.Tensor:
    """The gradient of the projection, from those of what ``_split`` made of it."""
    # A rotation's transpose is the rotation back.
    queries, keys = apply_rotary(queries, (cosines, -sines)), apply_rotary(keys, (cosines, -sines))
    batch, sequence, groups, head_dim = keys.shape
    whole = (queries.reshape(batch, sequence, groups, -1, head_dim), keys.unsqueeze(-2), values.unsqueeze(-2))
    return torch.cat(whole, dim=-2)
