from __future__ import annotations

import math

import pytest
import torch

from neox_train.config.architecture import Architecture
from neox_train.model.attention import SelfAttention
from neox_train.model.layers import LocalLayers
from neox_train.model.masks import alibi_slopes, build_mask
from tests.model.architectures import make_architecture


def draw_layer(architecture: Architecture) -> tuple[SelfAttention, torch.Tensor]:
    """A layer of random parameters, and an input [1, 10, 64]."""
    attention = SelfAttention(architecture, LocalLayers(), kind="global")
    generator = torch.Generator().manual_seed(5)
    with torch.no_grad():
        for parameter in attention.parameters():
            parameter.normal_(0.0, 0.3, generator=generator)
    hidden = torch.randn(1, 10, 64, generator=generator)
    return attention, hidden


@pytest.mark.parametrize("kv_heads", [1, 2, 4])
def test_each_query_reads_the_keys_of_its_own_group(kv_heads: int) -> None:
    """Against attention spelled out head by head from the rows of the fused matrix."""
    architecture = make_architecture(num_kv_heads=kv_heads, pos_emb="none")
    attention, hidden = draw_layer(architecture)
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


@pytest.mark.parametrize("norm", ["layernorm", "rmsnorm"])
def test_queries_and_keys_pass_one_norm_over_all_heads(norm: str) -> None:
    architecture = make_architecture(norm=norm, qk_norm=True, pos_emb="none")
    attention, hidden = draw_layer(architecture)
    rows = (hidden @ attention.query_key_value.weight.T + attention.query_key_value.bias)[0].view(10, 4, 3, 16)
    queries, keys = (attention.qk_layernorm(rows[:, :, part].flatten(1)).view(10, 4, 16) for part in (0, 1))
    scores = torch.einsum("qhd,khd->hqk", queries, keys) / 4 + torch.full((10, 10), -math.inf).triu(1)
    context = torch.einsum("hqk,khd->qhd", scores.softmax(-1), rows[:, :, 2]).flatten(1)
    wanted = context @ attention.dense.weight.T + attention.dense.bias
    with torch.no_grad():
        assert torch.allclose(attention(hidden, None)[0], wanted, atol=1e-5)


def test_alibi_is_added_to_the_scaled_scores() -> None:
    architecture = make_architecture(pos_emb="alibi", num_kv_heads=2)
    attention, hidden = draw_layer(architecture)
    rows = (hidden @ attention.query_key_value.weight.T + attention.query_key_value.bias)[0].view(10, 2, 4, 16)
    queries = rows[:, :, :2].flatten(1, 2)
    keys, values = (rows[:, :, part].repeat_interleave(2, dim=1) for part in (2, 3))
    distance = torch.arange(10).unsqueeze(0) - torch.arange(10).unsqueeze(1)
    slopes = torch.tensor([2**-2, 2**-4, 2**-6, 2**-8]).view(4, 1, 1)
    scores = torch.einsum("qhd,khd->hqk", queries, keys) / 4 + slopes * distance
    scores = scores.masked_fill(distance > 0, -math.inf)
    context = torch.einsum("hqk,khd->qhd", scores.softmax(-1), values).flatten(1)
    wanted = context @ attention.dense.weight.T + attention.dense.bias
    mask = build_mask(architecture, "global", 10, alibi_slopes(architecture.num_attention_heads), torch.device("cpu"))
    with torch.no_grad():
        assert torch.allclose(attention(hidden, None, mask)[0], wanted, atol=1e-5)


def test_a_layer_that_needs_a_mask_does_not_run_without() -> None:
    attention = SelfAttention(make_architecture(pos_emb="alibi"), LocalLayers(), kind="global")
    with pytest.raises(ValueError, match="mask"):
        attention(torch.randn(1, 8, 64), None)
