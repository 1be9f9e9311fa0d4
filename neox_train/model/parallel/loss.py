"""Cross-entropy of logits that are cut over the vocabulary."""

from __future__ import annotations

from typing import Any, cast

import torch
import torch.distributed
import torch.nn.functional as F

from neox_train.model.parallel.group import TensorGroup


def vocabulary_cross_entropy(
    logits: torch.Tensor, targets: torch.Tensor, *, vocab_size: int, group: TensorGroup
) -> torch.Tensor:
    """Mean negative log-likelihood in fp32; only one number a token and kind travels between the ranks.

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
    @staticmethod
    def forward(
        ctx: Any, logits: torch.Tensor, targets: torch.Tensor, first: int, valid: int, group: TensorGroup
    ) -> torch.Tensor:
        own = logits[:, :valid].float()
        highest = own.amax(-1) if valid else own.new_full((own.shape[0],), -torch.inf)
        torch.distributed.all_reduce(highest, op=torch.distributed.ReduceOp.MAX, group=group.process_group)
        exponentials = (own - highest.unsqueeze(-1)).exp_()
        local = targets - first
        is_own = (local >= 0) & (local < valid)
        local = local.masked_fill(~is_own, 0)
        target = own.gather(-1, local.unsqueeze(-1)).squeeze(-1) if valid else torch.zeros_like(highest)
        sums = torch.stack((exponentials.sum(-1), target.masked_fill(~is_own, 0.0)))
        torch.distributed.all_reduce(sums, group=group.process_group)
        total, target = sums
        ctx.save_for_backward(exponentials.div_(total.unsqueeze(-1)), local, is_own)
        ctx.width, ctx.dtype = logits.shape[-1], logits.dtype
        return (total.log() + highest - target).mean()

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor, None, None, None, None]:
        probabilities, local, is_own = ctx.saved_tensors
        gradient = probabilities.clone()
        if gradient.shape[-1]:
            gradient.scatter_add_(-1, local.unsqueeze(-1), -is_own.to(gradient.dtype).unsqueeze(-1))
        gradient.mul_(gradients[0] / len(gradient))
        padded = F.pad(gradient, (0, ctx.width - gradient.shape[-1]))
        return padded.to(ctx.dtype), None, None, None, None
