from __future__ import annotations

import math

import pytest
import torch
from deepspeed.ops.sparse_attention.sparsity_config import LocalSlidingWindowSparsityConfig
from transformers.models.bloom.modeling_bloom import build_alibi_tensor

from neox_train.model.layers import LocalLayers
from neox_train.model.masks import AttentionMasks, alibi_slopes, build_mask
from tests.model.architectures import make_architecture

CPU = torch.device("cpu")


@pytest.mark.parametrize(("block", "blocks"), [(4, 1), (4, 2), (4, 3), (8, 4), (2, 5)])
def test_local_layers_see_the_blocks_of_deepspeed(block: int, blocks: int) -> None:
    architecture = make_architecture(local_block=block, local_blocks=blocks)
    layout = LocalSlidingWindowSparsityConfig(1, block, blocks, "unidirectional").make_layout(32)[0].bool()
    wanted = layout.repeat_interleave(block, 0).repeat_interleave(block, 1).tril()
    assert torch.equal(build_mask(architecture, "local", 32, [], CPU)[0, 0] == 0, wanted)


@pytest.mark.parametrize("window", [1, 5, 40])
def test_a_window_is_that_many_tokens_and_itself(window: int) -> None:
    mask = build_mask(make_architecture(sliding_window=window), "flash", 20, [], CPU)[0, 0]
    seen = [[key for key in range(20) if mask[query, key] == 0] for query in range(20)]
    assert seen == [list(range(max(0, query - window), query + 1)) for query in range(20)]


@pytest.mark.parametrize("heads", [1, 4, 6, 8, 12, 20])
def test_alibi_has_the_slopes_of_transformers(heads: int) -> None:
    theirs = build_alibi_tensor(torch.ones(1, 2), heads, torch.float32)[:, 0, 1]
    assert torch.allclose(torch.tensor(alibi_slopes(heads)), theirs, rtol=1e-6)


def test_alibi_falls_with_the_distance_and_hides_what_follows() -> None:
    mask = build_mask(make_architecture(pos_emb="alibi"), "global", 6, alibi_slopes(4), CPU)
    assert mask.shape == (1, 4, 6, 6)
    assert mask[0, 1, 5, 2] == -3 * alibi_slopes(4)[1]
    assert mask[0, 0, 2, 3] == -math.inf


def test_masks_are_made_once_a_length_and_only_where_wanted() -> None:
    masks = AttentionMasks(make_architecture(attention_layers=("global", "local")), LocalLayers())
    first = masks.for_length(16, device=CPU, dtype=torch.bfloat16)
    assert list(first) == ["local"] and first["local"].dtype == torch.bfloat16
    assert masks.for_length(16, device=CPU, dtype=torch.bfloat16)["local"] is first["local"]
    assert masks.for_length(8, device=CPU, dtype=torch.bfloat16)["local"].shape == (1, 1, 8, 8)
    assert AttentionMasks(make_architecture(), LocalLayers()).for_length(16, device=CPU, dtype=torch.float32) == {}
