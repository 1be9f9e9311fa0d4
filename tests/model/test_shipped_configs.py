"""A narrow copy of every shipped model learns: its options hold together."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from neox_train.config.architecture import Architecture
from neox_train.config.load import load_config
from neox_train.model.gpt_neox import GPTNeoX
from neox_train.model.initialisation import initialise

CONFIGS = Path(__file__).parents[2] / "configs"
# Files that lie over a size.
FRAGMENTS = {"local_setup", "fp8", "demo/base", "demo/serial", "demo/parallel"}
NAMES = sorted(set(str(file.relative_to(CONFIGS).with_suffix("")) for file in CONFIGS.rglob("*.yml")) - FRAGMENTS)


def narrow(name: str) -> Architecture:
    """Two layers of the model, with its heads of width 16."""
    config = load_config([CONFIGS / f"{name}.yml"], world_size=8).with_vocab_size(90)
    a = Architecture.from_config(config)
    width = 16 * a.num_attention_heads
    return replace(
        a,
        num_layers=2,
        attention_layers=a.attention_layers[:2],
        hidden_size=width,
        ffn_width=2 * width,
        seq_length=16,
        max_position_embeddings=16,
        padded_vocab_size=96,
    )


@pytest.mark.parametrize("name", NAMES)
def test_a_narrow_copy_starts_at_chance_and_learns(name: str) -> None:
    architecture = narrow(name)
    model = GPTNeoX(architecture)
    initialise(model, architecture, seed=5)
    tokens = torch.randint(0, 90, (2, 17), generator=torch.Generator().manual_seed(1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    losses = []
    for _ in range(3):
        loss = model.loss(tokens)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(float(loss.detach()))
    assert losses[0] == pytest.approx(torch.tensor(90.0).log().item(), abs=1.0)
    assert losses[2] < losses[0]
