"""The language-model loss."""

from __future__ import annotations

import torch
import torch.nn.functional as F


def cross_entropy(logits: torch.Tensor, targets: torch.Tensor, *, vocab_size: int) -> torch.Tensor:
    """Mean negative log-likelihood of the targets over the true vocabulary, in fp32.

    ``logits`` [..., padded vocabulary], ``targets`` int64 [...]. Columns past ``vocab_size`` take no part, so padding
    changes neither the loss nor any gradient, and the gradient of the padding rows is exactly zero.
    """
    return F.cross_entropy(logits[..., :vocab_size].flatten(0, -2).float(), targets.flatten())
