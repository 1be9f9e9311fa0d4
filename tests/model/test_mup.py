"""Maximal-update parametrisation: what a step changes does not depend on the width."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch

from neox_train.config.architecture import Architecture
from neox_train.config.parameters import list_parameters
from neox_train.model.gpt_neox import GPTNeoX
from neox_train.model.initialisation import draw, initialise
from neox_train.training.optimizer import set_learning_rate
from neox_train.training.parameter_groups import RATE_FACTOR, group_parameters
from tests.memory.plans import make_config

BASE = 32
WIDTHS = (32, 128, 512)
STEPS = 4


def make(width: int, *, use_mup: bool, **keys: Any) -> tuple[Any, Architecture]:
    mup = {"use_mup": True, "mup_base_hidden_size": BASE} if use_mup else {}
    config = make_config(
        world_size=1,
        hidden_size=width,
        num_attention_heads=4,
        init_method="normal",
        **{"weight_decay": 0.0, **mup, **keys},
    )
    return config, Architecture.from_config(config)


def measure_change(width: int, *, use_mup: bool) -> dict[str, float]:
    """Root mean square of what a few steps of Adam change in the hidden states and in the logits."""
    config, architecture = make(width, use_mup=use_mup)
    model = GPTNeoX(architecture)
    initialise(model, architecture, seed=3)
    tokens = torch.randint(0, 200, (4, 33), generator=torch.Generator().manual_seed(1))
    optimizer = torch.optim.AdamW(group_parameters(model, architecture, config), betas=(0.9, 0.95))
    before = observe(model, tokens)
    for _ in range(STEPS):
        set_learning_rate(optimizer, 0.01)
        model.loss(tokens).backward()
        optimizer.step()
        optimizer.zero_grad()
    after = observe(model, tokens)
    return {name: float((after[name] - before[name]).square().mean().sqrt()) for name in before}


@torch.no_grad()
def observe(model: GPTNeoX, tokens: torch.Tensor) -> dict[str, torch.Tensor]:
    hidden = model.run_layers(model.embed(tokens[:, :-1]), length=tokens.shape[1] - 1)
    return {"hidden": hidden, "logits": model(tokens[:, :-1])}


def test_a_step_moves_hidden_states_and_logits_alike_at_every_width() -> None:
    changes = {width: measure_change(width, use_mup=True) for width in WIDTHS}
    plain = {width: measure_change(width, use_mup=False) for width in WIDTHS}
    narrow, wide = WIDTHS[0], WIDTHS[-1]
    for name in ("hidden", "logits"):
        assert changes[wide][name] / changes[narrow][name] == pytest.approx(1.0, abs=0.5), name
    # Without it the same learning rate moves a wide model much further.
    assert plain[wide]["hidden"] / plain[narrow]["hidden"] > 3


def shrink(width: int) -> dict[str, float]:
    """By how much a step of AdamW without gradients shrinks a matrix of the layers, an embedding and a bias."""
    config, architecture = make(width, use_mup=True, weight_decay=0.1)
    model = GPTNeoX(architecture)
    initialise(model, architecture, seed=3)
    optimizer = torch.optim.AdamW(group_parameters(model, architecture, config))
    set_learning_rate(optimizer, 0.1)
    named = dict(model.named_parameters())
    for parameter in named.values():
        parameter.grad = torch.zeros_like(parameter)
    names = ("layers.0.mlp.linear1.weight", "word_embeddings.weight", "final_norm.weight")
    before = {name: named[name].detach().clone() for name in names}
    optimizer.step()
    return {name: 1.0 - float(named[name].norm() / before[name].norm()) for name in names}


def test_decay_shrinks_weights_alike_at_every_width() -> None:
    for width in (BASE, 4 * BASE):
        assert list(shrink(width).values()) == pytest.approx([0.01, 0.01, 0.0], abs=1e-6)


def test_factors_follow_the_width() -> None:
    config, architecture = make(128, use_mup=True, mup_init_scale=0.5)
    assert architecture.mup_width == 4
    assert architecture.attention_scale == 1 / 32 and architecture.output_multiplier == 0.25
    groups = group_parameters(GPTNeoX(architecture), architecture, config)
    assert [group.get(RATE_FACTOR) for group in groups] == [0.25, None]
    assert {parameter.ndim for parameter in groups[0]["params"]} == {2}
    table = {parameter.name: parameter for parameter in list_parameters(architecture)}
    for name, width in (("layers.0.mlp.linear1.weight", 4), ("word_embeddings.weight", 1), ("output.weight", 1)):
        std = float(draw(table[name], architecture, seed=2)[: architecture.vocab_size].std())
        assert std == pytest.approx(0.02 * 0.5 / math.sqrt(width), rel=0.05), name


def test_at_the_base_width_only_the_attention_differs() -> None:
    _, architecture = make(BASE, use_mup=True)
    assert (architecture.mup_width, architecture.output_multiplier) == (1.0, 1.0)
    assert architecture.attention_scale == 1 / 8
    _, plain = make(BASE, use_mup=False)
    assert plain.attention_scale == pytest.approx(1 / math.sqrt(8))
    first, second = (draw(list_parameters(a)[3], a, seed=2) for a in (architecture, plain))
    assert torch.equal(first, second)
