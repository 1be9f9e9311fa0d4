"""Cross-entropy of logits that are cut over the vocabulary."""

from __future__ import annotations

from typing import Any, cast

import torch
import torch.distributed

from neox_train.model.loss import IGNORED, count_kept
from neox_train.model.parallel.group import TensorGroup


def vocabulary_cross_entropy(
    logits: torch.Tensor, targets: torch.Tensor, *, vocab_size: int, group: TensorGroup
) -> torch.Tensor:
    """Mean negative log-likelihood in fp32 of the targets that are not IGNORED.

    Only one number a token and kind travels between the ranks.
    ``logits`` [..., padded vocabulary / size] of this rank, ``targets`` int64 [...]. Columns past ``vocab_size`` take
    no part.
    """
    width = logits.shape[-1]
    first = group.rank * width
    valid = min(max(vocab_size - first, 0), width)
    return cast(
        torch.Tensor,
        _VocabularyCrossEntropy.apply(logits.flatten(0, -2), targets.flatten(), first, valid, group),
    )


class _VocabularyCrossEntropy(torch.autograd.Function):
    """Beside the logits one fp32 tensor of their size lives, forward and backward."""

    @staticmethod
    def forward(
        ctx: Any, logits: torch.Tensor, targets: torch.Tensor, first: int, valid: int, group: TensorGroup
    ) -> torch.Tensor:
        probabilities = logits[:, :valid].to(torch.float32, copy=True)
        rows = len(probabilities)
        highest = probabilities.amax(-1) if valid else probabilities.new_full((rows,), -torch.inf)
        torch.distributed.all_reduce(highest, op=torch.distributed.ReduceOp.MAX, group=group.process_group)
        local = targets - first
        is_own = (local >= 0) & (local < valid)
        local = local.masked_fill_(~is_own, 0).unsqueeze(-1)
        target = probabilities.gather(-1, local).squeeze(-1) if valid else probabilities.new_zeros(rows)
        probabilities.sub_(highest.unsqueeze(-1)).exp_()
        sums = torch.stack((probabilities.sum(-1), target.masked_fill(~is_own, 0.0)))
        torch.distributed.all_reduce(sums, group=group.process_group)
        total, target = sums
        kept, count = targets != IGNORED, count_kept(targets)
        ctx.save_for_backward(probabilities.div_(total.unsqueeze(-1)), local, is_own, kept)
        ctx.width, ctx.dtype, ctx.count = logits.shape[-1], logits.dtype, count
        return ((total.log() + highest - target) * kept).sum() / count

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor, None, None, None, None]:
        probabilities, local, is_own, kept = ctx.saved_tensors
        rows, valid = probabilities.shape
        scale = (gradients[0] / ctx.count * kept).unsqueeze(-1)
        gradient = probabilities.new_empty((rows, ctx.width), dtype=ctx.dtype)
        gradient[:, valid:] = 0.0
        if valid:
            torch.mul(probabilities, scale, out=gradient[:, :valid])
            target = (probabilities.gather(-1, local) - is_own.unsqueeze(-1).float()) * scale
            gradient.scatter_(-1, local, target.to(ctx.dtype))
        return gradient, None, None, None, None
