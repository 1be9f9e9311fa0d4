from __future__ import annotations

import cmath

import pytest
import torch

from neox_train.errors import ConfigError
from neox_train.model.rotary import Rotary, apply_rotary


def test_rotates_pairs_by_their_angle() -> None:
    heads = torch.randn(1, 5, 2, 8, generator=torch.Generator().manual_seed(0), dtype=torch.float32)
    turned = apply_rotary(heads, Rotary(4, 100).tables(5, heads.device))
    for position in range(5):
        for head in range(2):
            for pair, frequency in enumerate((1.0, 0.1)):
                before = complex(heads[0, position, head, pair], heads[0, position, head, pair + 2])
                after = complex(turned[0, position, head, pair], turned[0, position, head, pair + 2])
                assert after == pytest.approx(before * cmath.exp(1j * position * frequency), abs=1e-5)
    assert torch.equal(turned[..., 4:], heads[..., 4:])


def test_scores_depend_on_distance_only() -> None:
    generator = torch.Generator().manual_seed(1)
    query, key = torch.randn(8, generator=generator), torch.randn(8, generator=generator)
    tables = Rotary(8, 10000).tables(40, torch.device("cpu"))
    queries = apply_rotary(query.expand(1, 40, 1, 8), tables)[0, :, 0]
    keys = apply_rotary(key.expand(1, 40, 1, 8), tables)[0, :, 0]
    scores = queries @ keys.T
    assert torch.allclose(torch.diagonal(scores, -3), scores[3, 0].expand(37), atol=1e-5)


def test_tables_grow_and_stay_fp32() -> None:
    rotary = Rotary(8, 10000)
    short = rotary.tables(4, torch.device("cpu"))
    longer = rotary.tables(9, torch.device("cpu"))
    assert longer[0].shape == (9, 1, 4) and longer[0].dtype == torch.float32
    assert torch.equal(longer[1][:4], short[1])
    heads = torch.randn(1, 9, 1, 8).bfloat16()
    assert apply_rotary(heads, longer).dtype == torch.bfloat16


def test_tables_made_in_inference_mode_serve_training() -> None:
    rotary = Rotary(4, 10000)
    with torch.inference_mode():
        rotary.tables(6, torch.device("cpu"))
    heads = torch.randn(1, 6, 1, 4, requires_grad=True)
    apply_rotary(heads, rotary.tables(6, heads.device)).sum().backward()
    assert heads.grad is not None


@pytest.mark.parametrize("dimensions", [0, 3])
def test_an_odd_number_of_dimensions_is_refused(dimensions: int) -> None:
    with pytest.raises(ConfigError, match="rotary_pct"):
        Rotary(dimensions, 10000)
