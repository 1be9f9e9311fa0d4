"""Inputs and targets of training windows."""

from __future__ import annotations

import torch

from neox_train.model.loss import IGNORED


def split_windows(windows: torch.Tensor, masked_after: int | None) -> tuple[torch.Tensor, torch.Tensor]:
    """Inputs and targets, int64 [micro-batch, seq_length], of windows [micro-batch, seq_length + 1].

    A token below 0 is ~token, marked as no target by label files. ``masked_after`` is a token whose successor is left
    out of the loss: the end of a document says nothing of the next.
    """
    marked = windows < 0
    inputs = torch.where(marked, ~windows, windows)[:, :-1]
    targets = windows.masked_fill(marked, IGNORED)[:, 1:]
    return inputs, targets if masked_after is None else targets.masked_fill(inputs == masked_after, IGNORED)
