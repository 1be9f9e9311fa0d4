"""How one whole tensor and its tensor-parallel shards make each other up."""

from __future__ import annotations

from collections.abc import Sequence

import torch


def cut(whole: torch.Tensor, *, dim: int | None, parts: int, rank: int, size: int) -> torch.Tensor:
    """Shard ``rank`` of ``size``: an even cut of each of the ``parts`` equal parts along ``dim``, joined again.

    A gated MLP's first matrix has two parts, gate and up projection, so that every rank has both of its columns.
    Without ``dim`` every rank holds the whole.
    """
    if dim is None or size == 1:
        return whole
    return torch.cat([part.chunk(size, dim)[rank] for part in whole.chunk(parts, dim)], dim)


def join(shards: Sequence[torch.Tensor], *, dim: int | None, parts: int) -> torch.Tensor:
    """The whole tensor of all shards in rank order; the inverse of ``cut``."""
    if dim is None or len(shards) == 1:
        return shards[0]
    cuts = [shard.chunk(parts, dim) for shard in shards]
    return torch.cat([cuts[rank][part] for part in range(parts) for rank in range(len(shards))], dim)
