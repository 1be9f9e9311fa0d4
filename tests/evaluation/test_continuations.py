"""Continuations: the same seed the same text, prompts of the documents, sampling that follows the model."""

from __future__ import annotations

import numpy as np
import torch

from neox_train.evaluation.continuations import choose_prompts, sample_tokens, write_continuations
from tests.evaluation.conftest import make_model

VOCAB, EOD_ID = 40, 0


def sample(seed: int, temperature: float = 1.0) -> list[int]:
    prompt = np.array([5, 9, 3, 7], dtype=np.uint16)
    return sample_tokens(
        make_model(VOCAB), prompt, count=12, temperature=temperature, eod_id=EOD_ID, vocab_size=VOCAB, seed=seed
    )


def test_the_seed_decides():
    assert sample(1) == sample(1)
    assert sample(1) != sample(2)


def test_cold_sampling_follows_the_model():
    model, tokens = make_model(VOCAB), [5, 9, 3, 7]
    expected: list[int] = []
    with torch.no_grad():
        while len(expected) < 12:
            token = int(model(input_ids=torch.tensor([tokens + expected])).logits[0, -1].argmax())
            if token == EOD_ID:
                break
            expected.append(token)
    assert sample(3, temperature=1e-4) == expected


def test_prompts_leave_room_for_the_real_continuation():
    lengths = [10, 100, 7, 40, 39, 64]
    places = choose_prompts(lengths, count=5, prompt_tokens=20, seed=4)
    assert [index for index, _ in places] == [1, 3, 5]
    assert all(start >= 0 and start + 40 <= lengths[index] for index, start in places)
    assert places == choose_prompts(lengths, count=5, prompt_tokens=20, seed=4)


def test_texts_stay_inside_the_sequence_length():
    rng = np.random.default_rng(0)
    documents = [np.append(rng.integers(1, VOCAB, 200), EOD_ID) for _ in range(2)]
    texts = write_continuations(
        make_model(VOCAB),
        lambda index: documents[index],
        lambda tokens: " ".join(map(str, tokens)),
        document_lengths=[201, 201],
        count=2,
        new_tokens=500,
        seq_length=32,
        eod_id=EOD_ID,
        vocab_size=VOCAB,
        seed=7,
    )
    assert len(texts) == 2
    for text in texts:
        document, start = documents[text["document"]], text["first_token"]
        assert text["prompt"] == " ".join(map(str, document[start : start + 16]))
        assert text["real_continuation"] == " ".join(map(str, document[start + 16 : start + 32]))
        assert text["ended"] == (len(text["continuation"].split()) < 16)
