"""The language-model loss."""

from __future__ import annotations

import torch
import torch.nn.functional as F

IGNORED = -100
"""Target of a token that takes no part in the loss."""


def cross_entropy(logits: torch.Tensor, targets: torch.Tensor, *, vocab_size: int) -> torch.Tensor:
    """Mean negative log-likelihood over the targets that are not IGNORED, in fp32; 0 where all are.

    ``logits`` [..., padded vocabulary], ``targets`` int64 [...]. Columns past ``vocab_size`` take no part, so padding
    changes neither the loss nor any gradient, and the gradient of the padding rows is exactly zero.
    """
    scores = logits[..., :vocab_size].flatten(0, -2).float()
    total = F.cross_entropy(scores, targets.flatten(), ignore_index=IGNORED, reduction="sum")
    return total / count_kept(targets)


def count_kept(targets: torch.Tensor) -> torch.Tensor:
    """How many targets take part in the loss, at least 1: what the sum of their losses is divided by."""
    return (targets != IGNORED).sum().clamp(min=1)
