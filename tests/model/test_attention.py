from __future__ import annotations

import math

import pytest
import torch

from neox_train.model.attention import SelfAttention
from neox_train.model.layers import LocalLayers
from tests.model.architectures import make_architecture


@pytest.mark.parametrize("kv_heads", [1, 2, 4])
def test_each_query_reads_the_keys_of_its_own_group(kv_heads: int) -> None:
    """Against attention spelled out head by head from the rows of the fused matrix."""
    architecture = make_architecture(num_kv_heads=kv_heads, pos_emb="none")
    attention = SelfAttention(architecture, LocalLayers(), kind="global")
    generator = torch.Generator().manual_seed(5)
    with torch.no_grad():
        for parameter in attention.parameters():
            parameter.normal_(0.0, 0.3, generator=generator)
    hidden = torch.randn(1, 10, 64, generator=generator)
    width, per_group = architecture.head_dim, 4 // kv_heads
    rows = (hidden @ attention.query_key_value.weight.T + attention.query_key_value.bias)[0]
    mask = torch.full((10, 10), -math.inf).triu(1)
    contexts = []
    for head in range(4):
        group = (head // per_group) * (per_group + 2) * width
        query = rows[:, group + (head % per_group) * width :][:, :width]
        key = rows[:, group + per_group * width :][:, :width]
        value = rows[:, group + (per_group + 1) * width :][:, :width]
        contexts.append(torch.softmax(query @ key.T / math.sqrt(width) + mask, dim=-1) @ value)
    wanted = torch.cat(contexts, dim=-1) @ attention.dense.weight.T + attention.dense.bias
    with torch.no_grad():
        assert torch.allclose(attention(hidden, None)[0], wanted, atol=1e-5)


def test_attention_dropout_acts_in_training_only() -> None:
    architecture = make_architecture(attention_dropout=0.5, pos_emb="none")
    attention = SelfAttention(architecture, LocalLayers(), kind="flash")
    for parameter in attention.parameters():
        torch.nn.init.normal_(parameter)
    hidden = torch.randn(1, 8, 64)
    assert not torch.equal(attention(hidden, None), attention(hidden, None))
    attention.eval()
    assert torch.equal(attention(hidden, None), attention(hidden, None))
