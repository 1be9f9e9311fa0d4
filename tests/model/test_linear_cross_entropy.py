from __future__ import annotations

import pytest
import torch

from neox_train.model.linear_cross_entropy import linear_cross_entropy
from neox_train.model.loss import IGNORED, cross_entropy

VOCAB_SIZE, PADDED, WIDTH = 37, 48, 16


def compute(chunk_tokens: int, dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Loss and both gradients; chunk 0 is the plain cross-entropy of whole logits."""
    draw = torch.Generator().manual_seed(3)
    hidden = torch.randn(2, 10, WIDTH, generator=draw).to(dtype).requires_grad_()
    weight = torch.randn(PADDED, WIDTH, generator=draw).to(dtype).requires_grad_()
    targets = torch.randint(VOCAB_SIZE, (2, 10), generator=draw)
    targets[0, 3] = targets[1, 9] = IGNORED
    if chunk_tokens:
        loss = linear_cross_entropy(hidden, weight, targets, vocab_size=VOCAB_SIZE, chunk_tokens=chunk_tokens)
    else:
        loss = cross_entropy(hidden @ weight.t(), targets, vocab_size=VOCAB_SIZE)
    (loss * 0.5).backward()
    assert hidden.grad is not None and weight.grad is not None
    return loss.detach(), hidden.grad, weight.grad


@pytest.mark.parametrize("chunk_tokens", [1, 7, 20, 64])
def test_loss_and_gradients_are_those_of_the_whole_logits(chunk_tokens: int) -> None:
    chunked, whole = compute(chunk_tokens, torch.float32), compute(0, torch.float32)
    for ours, theirs in zip(chunked, whole, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-6)


def test_in_bf16_it_is_as_near_to_fp32_as_whole_logits_are() -> None:
    exact, chunked, whole = compute(0, torch.float32), compute(7, torch.bfloat16), compute(0, torch.bfloat16)
    for ours, theirs, truth in zip(chunked, whole, exact, strict=True):
        assert float((ours.float() - truth).norm()) < 1.5 * float((theirs.float() - truth).norm()) + 1e-3


def test_padding_columns_get_no_gradient() -> None:
    _, _, weight_gradient = compute(7, torch.float32)
    assert torch.equal(weight_gradient[VOCAB_SIZE:], torch.zeros(PADDED - VOCAB_SIZE, WIDTH))
    assert float(weight_gradient[:VOCAB_SIZE].norm()) > 0


@pytest.mark.parametrize("chunk_tokens", [0, 2])
def test_a_batch_of_which_nothing_counts_has_no_loss_and_no_gradient(chunk_tokens: int) -> None:
    hidden = torch.randn(4, WIDTH).requires_grad_()
    weight, targets = torch.randn(PADDED, WIDTH), torch.full((4,), IGNORED)
    if chunk_tokens:
        loss = linear_cross_entropy(hidden, weight, targets, vocab_size=VOCAB_SIZE, chunk_tokens=chunk_tokens)
    else:
        loss = cross_entropy(hidden @ weight.t(), targets, vocab_size=VOCAB_SIZE)
    loss.backward()
    assert float(loss) == 0.0 and hidden.grad is not None and not hidden.grad.any()


def test_without_gradients_it_only_measures() -> None:
    hidden, weight = torch.randn(4, WIDTH), torch.randn(PADDED, WIDTH)
    loss = linear_cross_entropy(hidden, weight, torch.arange(4), vocab_size=VOCAB_SIZE, chunk_tokens=3)
    assert not loss.requires_grad
    assert float(loss) == pytest.approx(
        float(cross_entropy(hidden @ weight.t(), torch.arange(4), vocab_size=VOCAB_SIZE))
    )
