from __future__ import annotations

import pytest
import torch
from torch._dynamo.utils import counters

from neox_train.model.gpt_neox import GPTNeoX
from neox_train.model.initialisation import initialise
from neox_train.training.compilation import compile_blocks
from tests.model.architectures import make_architecture


@pytest.mark.parametrize("dropout", [0.0, 0.1])
def test_equal_blocks_share_one_graph_that_is_compiled_once(dropout: float) -> None:
    torch._dynamo.reset()
    counters.clear()
    architecture = make_architecture(
        num_layers=3, attention_layers=("global",) * 3, hidden_dropout=dropout, attention_dropout=dropout
    )
    model, plain = GPTNeoX(architecture), GPTNeoX(architecture)
    for each in (model, plain):
        initialise(each, architecture, 3)
    # Captures and partitions as on a GPU; no compiler is needed.
    compile_blocks(model, backend="aot_eager")
    tokens = torch.randint(architecture.vocab_size, (2, 17))
    for _ in range(4):
        loss = model.loss(tokens)
        loss.backward()
    assert counters["stats"]["unique_graphs"] == 1
    assert not counters["graph_break"]
    assert [name for name, _ in model.named_parameters()] == [name for name, _ in plain.named_parameters()]
    if not dropout:
        torch.testing.assert_close(loss, plain.loss(tokens))
