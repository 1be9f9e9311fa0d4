"""A few texts that the model writes on from real held-out prompts."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

PROMPT_TOKENS = 48
TEMPERATURE = 0.8


def choose_prompts(
    document_lengths: Sequence[int], *, count: int, prompt_tokens: int, seed: int
) -> list[tuple[int, int]]:
    """Pick ``count`` places (document, first token) in different documents that are long enough, by ``seed`` alone."""
    generator = random.Random(seed)
    eligible = [index for index, length in enumerate(document_lengths) if length >= 2 * prompt_tokens]
    chosen = sorted(generator.sample(eligible, min(count, len(eligible))))
    return [(index, generator.randrange(document_lengths[index] - 2 * prompt_tokens + 1)) for index in chosen]


def sample_tokens(
    model: Any, prompt: np.ndarray, *, count: int, temperature: float, eod_id: int, vocab_size: int, seed: int
) -> list[int]:
    """Sample up to ``count`` tokens after ``prompt`` from the full distribution; stops at the end of document.

    Each step reads the whole text again: for a few short texts that is cheap, and how transformers names its cache
    changes between releases.
    """
    import torch

    device = next(model.parameters()).device
    generator = torch.Generator().manual_seed(seed)
    before = np.asarray(prompt, dtype=np.int64).tolist()
    tokens: list[int] = []
    with torch.inference_mode():
        while len(tokens) < count:
            inputs = torch.tensor([before + tokens], device=device)
            logits = model(input_ids=inputs, use_cache=False).logits[0, -1, :vocab_size].double().cpu()
            token = int(torch.multinomial(torch.softmax(logits / temperature, dim=0), 1, generator=generator))
            if token == eod_id:
                break
            tokens.append(token)
    return tokens


def write_continuations(
    model: Any,
    read_document: Callable[[int], np.ndarray],
    decode: Callable[[Sequence[int]], str],
    *,
    document_lengths: Sequence[int],
    count: int,
    new_tokens: int,
    seq_length: int,
    eod_id: int,
    vocab_size: int,
    seed: int,
) -> list[dict[str, Any]]:
    """Prompt, the model's continuation and the document's own, for ``count`` held-out places.

    The prompt is at most half the sequence length; all text is decoded from tokens, with broken characters replaced.
    """
    prompt_tokens = min(PROMPT_TOKENS, max(1, seq_length // 2))
    new_tokens = min(new_tokens, seq_length - prompt_tokens)
    texts = []
    for number, (index, start) in enumerate(
        choose_prompts(document_lengths, count=count, prompt_tokens=prompt_tokens, seed=seed)
    ):
        document = read_document(index)
        prompt = document[start : start + prompt_tokens]
        sampled = sample_tokens(
            model,
            prompt,
            count=new_tokens,
            temperature=TEMPERATURE,
            eod_id=eod_id,
            vocab_size=vocab_size,
            seed=seed + number,
        )
        truth = document[start + prompt_tokens : start + prompt_tokens + new_tokens]
        texts.append(
            {
                "document": index,
                "first_token": start,
                "prompt": decode(prompt.tolist()),
                "continuation": decode(sampled),
                "ended": len(sampled) < new_tokens,
                "real_continuation": decode([token for token in truth.tolist() if token != eod_id]),
            }
        )
    return texts
