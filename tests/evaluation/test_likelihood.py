"""Likelihood: known values of a uniform model, agreement with a plain computation, every token exactly once."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from neox_train.errors import UserError
from neox_train.evaluation.likelihood import batch_windows, cut_windows, score_documents
from tests.evaluation.conftest import make_model

VOCAB, EOD_ID, LENGTH = 40, 0, 8


def random_documents(lengths: tuple[int, ...], seed: int = 0) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    return [np.append(rng.integers(1, VOCAB, length), EOD_ID).astype(np.uint16) for length in lengths]


def test_uniform_model_costs_the_logarithm_of_the_vocabulary():
    documents = random_documents((3, 0, 30, 8, 7))
    scored = score_documents(
        make_model(VOCAB, uniform=True), documents, eod_id=EOD_ID, seq_length=LENGTH, vocab_size=VOCAB
    )
    assert scored.tokens == sum(len(document) for document in documents)
    assert scored.loss == pytest.approx(math.log(VOCAB), rel=1e-6)
    assert scored.perplexity == pytest.approx(VOCAB, rel=1e-6)
    assert scored.bits == pytest.approx(scored.tokens * math.log2(VOCAB), rel=1e-6)


def test_batched_sum_equals_one_window_at_a_time():
    model, documents = make_model(VOCAB), random_documents((1, 25, 9, 16, 4))
    expected = 0.0
    for document in documents:
        sequence = torch.tensor([EOD_ID, *document.tolist()])
        for start in range(0, len(sequence) - 1, LENGTH):
            window = sequence[start : start + LENGTH + 1]
            with torch.no_grad():
                logits = model(input_ids=window[None, :-1]).logits[0].double()
            expected -= float(logits.log_softmax(-1)[torch.arange(len(window) - 1), window[1:]].sum())
    scored = score_documents(model, documents, eod_id=EOD_ID, seq_length=LENGTH, vocab_size=VOCAB)
    assert scored.nats == pytest.approx(expected, rel=1e-5)


def test_padding_columns_take_no_probability():
    documents = random_documents((12,))
    scored = score_documents(
        make_model(VOCAB + 24, uniform=True), documents, eod_id=EOD_ID, seq_length=LENGTH, vocab_size=VOCAB
    )
    assert scored.loss == pytest.approx(math.log(VOCAB), rel=1e-6)


def test_a_loss_that_is_not_finite_is_refused():
    model = make_model(VOCAB)
    model.get_output_embeddings().weight.data[3] = math.nan
    with pytest.raises(UserError, match="not finite"):
        score_documents(model, random_documents((4,)), eod_id=EOD_ID, seq_length=LENGTH, vocab_size=VOCAB)


@given(st.lists(st.integers(0, 40), max_size=6), st.integers(1, 12))
def test_windows_predict_every_token_once_after_its_own_document(lengths: list[int], seq_length: int):
    documents = random_documents(tuple(lengths))
    windows = list(cut_windows(documents, eod_id=EOD_ID, seq_length=seq_length))
    targets = [token for window in windows for token in window[1:].tolist()]
    assert targets == [token for document in documents for token in document.tolist()]
    contexts = [token for window in windows for token in window[:-1].tolist()]
    before = [token for document in documents for token in (EOD_ID, *document[:-1].tolist())]
    assert contexts == before
    assert all(len(window) <= seq_length + 1 for window in windows)


@given(st.lists(st.integers(2, 20), max_size=40), st.integers(19, 100))
def test_batches_hold_every_window_within_the_limit(lengths: list[int], limit: int):
    windows = [np.full(length, index) for index, length in enumerate(lengths)]
    batches = list(batch_windows(windows, tokens_per_batch=limit))
    assert sorted(int(window[0]) for batch in batches for window in batch) == list(range(len(windows)))
    assert all(len(batch) * (max(map(len, batch)) - 1) <= limit for batch in batches)
