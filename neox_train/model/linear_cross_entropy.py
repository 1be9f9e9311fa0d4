"""Output projection and cross-entropy together, for a few thousand tokens at a time.

The logits of a whole micro-batch are the largest tensor of a step, and their fp32 copy twice that. Here the logits of
one chunk exist at a time, and the chunk's gradients are made at once, so that nothing of vocabulary width waits for
the backward pass.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import torch

from neox_train.model.loss import IGNORED, count_kept

ChunkLoss = tuple[torch.Tensor, torch.Tensor]


def linear_cross_entropy(
    hidden: torch.Tensor, weight: torch.Tensor, targets: torch.Tensor, *, vocab_size: int, chunk_tokens: int
) -> torch.Tensor:
    """Mean negative log-likelihood, an fp32 scalar, of ``targets`` under the logits ``hidden @ weight^T``.

    Targets that are IGNORED take no part.
    ``hidden`` [..., hidden size], ``weight`` [padded vocabulary, hidden size], ``targets`` int64 [...]. Equal to
    ``cross_entropy`` of the whole logits up to rounding: gradients of the weights add up over chunks in fp32.
    """
    loss: torch.Tensor = _LinearCrossEntropy.apply(
        hidden.flatten(0, -2), weight, targets.flatten(), vocab_size, chunk_tokens
    )
    return loss


class _LinearCrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, hidden: torch.Tensor, weight: torch.Tensor, targets: torch.Tensor, vocab_size: int, chunk_tokens: int
    ) -> torch.Tensor:
        wants_gradients = any(ctx.needs_input_grad)
        chunk_loss = _choose_chunk_loss(hidden.device.type)
        total = torch.zeros((), dtype=torch.float32, device=hidden.device)
        per_token = count_kept(targets).reciprocal()
        hidden_gradient = torch.empty_like(hidden) if wants_gradients else None
        weight_gradient = torch.zeros_like(weight, dtype=torch.float32) if wants_gradients else None
        for first in range(0, len(targets), chunk_tokens):
            chunk = slice(first, first + chunk_tokens)
            loss, gradient = chunk_loss(hidden[chunk] @ weight.t(), targets[chunk], vocab_size, per_token)
            total += loss
            if hidden_gradient is not None and weight_gradient is not None:
                torch.mm(gradient, weight, out=hidden_gradient[chunk])
                weight_gradient += gradient.t() @ hidden[chunk]
        if hidden_gradient is not None and weight_gradient is not None:
            ctx.save_for_backward(hidden_gradient, weight_gradient.to(weight.dtype))
        return total

    @staticmethod
    def backward(ctx: Any, *outer: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        hidden_gradient, weight_gradient = ctx.saved_tensors
        factor = outer[0].to(hidden_gradient.dtype)
        return hidden_gradient * factor, weight_gradient * factor, None, None, None


def _chunk_loss(logits: torch.Tensor, targets: torch.Tensor, vocab_size: int, per_token: torch.Tensor) -> ChunkLoss:
    """The chunk's part of the mean loss (fp32), and the gradient of the logits in their own type.

    Columns past ``vocab_size`` take no part, and their gradient is zero.
    """
    columns = torch.arange(logits.shape[-1], device=logits.device)
    scores = torch.where(columns < vocab_size, logits.float(), -torch.inf)
    normaliser = scores.logsumexp(dim=-1, keepdim=True)
    # A target that is IGNORED weighs nothing.
    kept = (targets != IGNORED).unsqueeze(-1)
    picked = scores.gather(-1, targets.clamp(min=0).unsqueeze(-1))
    loss = ((normaliser - picked) * kept).sum() * per_token
    hit = columns == targets.unsqueeze(-1)
    gradient = ((scores - normaliser).exp() - hit.float()) * (kept * per_token)
    return loss, gradient.to(logits.dtype)


@cache
def _choose_chunk_loss(device_type: str) -> Any:
    """On a GPU compiled, so that the fp32 logits stay in registers."""
    return torch.compile(_chunk_loss, fullgraph=True) if device_type == "cuda" else _chunk_loss
