"""Packed documents that do not see one another."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from neox_train.model.documents import count_from_start, number_documents
from tests.model.architectures import make_architecture, make_random_model

END = 1
TOKENS = torch.tensor([[5, 6, END, 7, 8, 9, END, END, 2], [END, 3, 4, 5, 6, 7, 8, 9, END]])


def test_the_end_belongs_to_its_document() -> None:
    documents = number_documents(TOKENS, END)
    assert documents.tolist() == [[0, 0, 0, 1, 1, 1, 1, 2, 3], [0, 1, 1, 1, 1, 1, 1, 1, 1]]
    assert count_from_start(documents).tolist() == [[0, 1, 2, 0, 1, 2, 3, 0, 0], [0, 0, 1, 2, 3, 4, 5, 6, 7]]


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"pos_emb": "alibi"},
        {"pos_emb": "learned"},
        {"pos_emb": "sinusoidal", "num_kv_heads": 2},
        {"pos_emb": "none", "sliding_window": 2},
        {"attention_layers": ("global", "local"), "local_block": 2, "local_blocks": 2},
    ],
)
def test_a_packed_document_gets_the_logits_it_gets_alone(changes: dict[str, Any]) -> None:
    architecture = make_architecture(**changes)
    model = make_random_model(architecture, document_end=END)
    lengths = (4, 8, 6)
    draw = torch.Generator().manual_seed(4)
    documents = [torch.randint(2, 90, (length,), generator=draw) for length in lengths]
    for document in documents:
        document[-1] = END
    with torch.no_grad():
        packed = model(torch.cat(documents).unsqueeze(0))[0].split(lengths)
        alone = [model(document.unsqueeze(0))[0] for document in documents]
        plain = make_random_model(architecture)(torch.cat(documents).unsqueeze(0))[0].split(lengths)
    for index, (mine, other, seen_before) in enumerate(zip(packed, alone, plain, strict=True)):
        torch.testing.assert_close(mine, other, rtol=1e-5, atol=1e-5)
        # The first document has nothing before it; the others would change if they saw it.
        assert torch.allclose(mine, seen_before, atol=1e-3) == (index == 0)


def test_gradients_flow_through_positions_that_start_anew() -> None:
    model = make_random_model(make_architecture(pos_emb="learned"), document_end=END).train()
    model.loss(TOKENS).backward()
    gradient = model.position_embeddings.weight.grad
    assert gradient is not None
    rows = gradient.abs().sum(dim=1) > 0
    assert rows.tolist() == [True] * 7 + [False] * (len(rows) - 7)
