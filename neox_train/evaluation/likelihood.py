"""How well a causal language model predicts documents: every token of every document, exactly once."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np

from neox_train.errors import UserError

METHOD = (
    "Each document is scored alone, with the end-of-document token as its first context, so that its first byte is "
    "predicted too; the end-of-document token that closes it is predicted and counted. Documents longer than the "
    "sequence length are cut into windows that overlap by one token: every token is predicted exactly once, from the "
    "tokens before it in its window."
)

_LOGITS_PER_BATCH = 2**25
_WINDOWS_PER_SORT = 512
_IGNORED = -100


@dataclass(frozen=True)
class Likelihood:
    """Summed negative log-likelihood of documents, in nats, and the number of predicted tokens."""

    nats: float
    tokens: int

    @property
    def bits(self) -> float:
        """The same sum in bits."""
        return self.nats / math.log(2)

    @property
    def loss(self) -> float:
        """Mean nats a predicted token."""
        return self.nats / self.tokens

    @property
    def perplexity(self) -> float:
        """exp(loss)."""
        return math.exp(self.loss)


def score_documents(
    model: Any, documents: Iterable[np.ndarray], *, eod_id: int, seq_length: int, vocab_size: int
) -> Likelihood:
    """Sum the negative log-likelihood of ``documents`` under ``model``.

    ``documents`` yields int arrays of token ids that close with ``eod_id``. ``model(input_ids=[b, s])`` answers with
    ``.logits`` [b, s, at least vocab_size]; columns past ``vocab_size`` are padding and take no probability.
    Raises UserError where a window's loss is not finite.
    """
    import torch

    device = next(model.parameters()).device
    windows = cut_windows(documents, eod_id=eod_id, seq_length=seq_length)
    nats, tokens = 0.0, 0
    with torch.inference_mode():
        for batch in batch_windows(windows, tokens_per_batch=max(seq_length, _LOGITS_PER_BATCH // vocab_size)):
            inputs, targets = (torch.from_numpy(array).to(device) for array in _pad(batch, eod_id))
            logits = model(input_ids=inputs, use_cache=False).logits[..., :vocab_size].float()
            losses = torch.nn.functional.cross_entropy(
                logits.flatten(0, 1), targets.flatten(), ignore_index=_IGNORED, reduction="none"
            )
            nats += float(losses.double().sum())
            tokens += sum(len(window) - 1 for window in batch)
            if not math.isfinite(nats):
                raise UserError(
                    "the exported model gives a loss that is not finite; look at the training's last losses"
                )
    return Likelihood(nats=nats, tokens=tokens)


def cut_windows(documents: Iterable[np.ndarray], *, eod_id: int, seq_length: int) -> Iterator[np.ndarray]:
    """Cut ``[eod, document]`` into windows of at most seq_length + 1 tokens, each sharing one token with the last."""
    for document in documents:
        sequence = np.concatenate([[eod_id], document]).astype(np.int64)
        for start in range(0, len(sequence) - 1, seq_length):
            yield sequence[start : start + seq_length + 1]


def batch_windows(windows: Iterable[np.ndarray], *, tokens_per_batch: int) -> Iterator[list[np.ndarray]]:
    """Group windows of like length, so that a padded batch holds at most ``tokens_per_batch`` tokens."""
    stream = iter(windows)
    while chunk := list(islice(stream, _WINDOWS_PER_SORT)):
        batch: list[np.ndarray] = []
        for window in sorted(chunk, key=len, reverse=True):
            if batch and (len(batch) + 1) * (len(batch[0]) - 1) > tokens_per_batch:
                yield batch
                batch = []
            batch.append(window)
        yield batch


def _pad(batch: list[np.ndarray], eod_id: int) -> tuple[np.ndarray, np.ndarray]:
    """Inputs and targets [b, s]; padding stands at the right, where a causal model's real positions cannot see it."""
    width = max(len(window) for window in batch) - 1
    inputs = np.full((len(batch), width), eod_id, dtype=np.int64)
    targets = np.full((len(batch), width), _IGNORED, dtype=np.int64)
    for row, window in enumerate(batch):
        inputs[row, : len(window) - 1] = window[:-1]
        targets[row, : len(window) - 1] = window[1:]
    return inputs, targets
