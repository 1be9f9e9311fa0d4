from __future__ import annotations

import dataclasses
import math

import pytest
import torch

from neox_train.config.parameters import Parameter, list_parameters
from neox_train.errors import ConfigError
from neox_train.model.gpt_neox import GPTNeoX
from neox_train.model.initialisation import draw, initialise, normal_std
from tests.model.architectures import make_architecture

WIDE = make_architecture(num_layers=8, hidden_size=128, ffn_width=512, vocab_size=1000, padded_vocab_size=1024)


def _parameter(name: str) -> Parameter:
    return next(p for p in list_parameters(WIDE) if p.name == name)


@pytest.mark.parametrize(
    "method, std",
    [
        ("normal", 0.02),
        ("scaled_normal", 0.02 / math.sqrt(16)),
        ("single_residual_scaled_normal", 0.02 / math.sqrt(8)),
        ("small_init", math.sqrt(2 / (5 * 128))),
        ("wang_init", 2 / (8 * math.sqrt(128))),
        ("xavier_normal", math.sqrt(2 / (128 + 512))),
    ],
)
def test_normal_methods_follow_their_formulas(method: str, std: float) -> None:
    values = draw(_parameter("layers.3.mlp.linear1.weight"), dataclasses.replace(WIDE, init_method=method), 1)
    count = values.numel()
    assert abs(values.mean()) < 4 * std / math.sqrt(count)
    assert values.std().item() == pytest.approx(std, rel=4 / math.sqrt(2 * count))
    kurtosis = ((values / std) ** 4).mean().item()
    assert kurtosis == pytest.approx(3.0, abs=0.15)


def test_known_sizes_have_the_known_deviations() -> None:
    for layers, hidden, small, wang in [
        (6, 512, 0.02795, 0.01473),
        (12, 768, 0.02282, 0.00601),
        (44, 6144, 0.00807, 0.00058),
    ]:
        architecture = make_architecture(num_layers=layers, hidden_size=hidden)
        assert normal_std("small_init", architecture) == pytest.approx(small, abs=6e-6)
        assert normal_std("wang_init", architecture) == pytest.approx(wang, abs=6e-6)


def test_xavier_uniform() -> None:
    values = draw(_parameter("layers.0.mlp.linear1.weight"), dataclasses.replace(WIDE, init_method="xavier_uniform"), 1)
    limit = math.sqrt(6 / (128 + 512))
    assert 0.999 * limit < values.abs().max() <= limit
    assert values.std().item() == pytest.approx(limit / math.sqrt(3), rel=0.01)


@pytest.mark.parametrize("method, gain", [("orthogonal", math.sqrt(2)), ("scaled_orthogonal", math.sqrt(2 / 8))])
def test_orthogonal_columns(method: str, gain: float) -> None:
    values = draw(_parameter("layers.0.mlp.linear1.weight"), dataclasses.replace(WIDE, init_method=method), 1)
    assert torch.allclose(values.T @ values, gain**2 * torch.eye(128), atol=1e-4)


def test_each_kind_of_parameter_gets_its_own_method() -> None:
    architecture = make_architecture(
        num_layers=4, hidden_size=128, ffn_width=512, vocab_size=1000, padded_vocab_size=1024,
        init_method="small_init", output_layer_init_method="wang_init",
    )  # fmt: skip
    model = GPTNeoX(architecture)
    initialise(model, architecture, seed=1234)
    for name, parameter in model.named_parameters():
        if name.endswith("bias"):
            assert not parameter.any(), name
        elif "norm" in name:
            assert torch.equal(parameter, torch.ones_like(parameter)), name
        else:
            method = "wang_init" if name.endswith(("dense.weight", "linear2.weight")) else "small_init"
            true = parameter[:1000] if parameter.shape[0] == 1024 else parameter
            assert true.std().item() == pytest.approx(normal_std(method, architecture), rel=0.03), name
    assert not model.word_embeddings.weight[1000:].any() and not model.output.weight[1000:].any()


def test_values_depend_on_seed_and_name_only() -> None:
    padded = dataclasses.replace(WIDE, padded_vocab_size=1152)
    for name in ("word_embeddings.weight", "layers.1.attention.dense.weight"):
        first = draw(_parameter(name), WIDE, 5)
        again = draw(next(p for p in list_parameters(padded) if p.name == name), padded, 5)
        assert torch.equal(first[:1000], again[:1000])
        assert not torch.equal(first, draw(_parameter(name), WIDE, 6))
    assert not torch.equal(
        draw(_parameter("layers.1.attention.dense.weight"), WIDE, 5),
        draw(_parameter("layers.2.attention.dense.weight"), WIDE, 5),
    )


def test_drawing_leaves_the_global_generator_alone() -> None:
    state = torch.random.get_rng_state()
    for method in ("normal", "xavier_uniform", "xavier_normal", "orthogonal"):
        draw(_parameter("layers.0.mlp.linear1.weight"), dataclasses.replace(WIDE, init_method=method), 1)
    GPTNeoX(make_architecture())
    assert torch.equal(torch.random.get_rng_state(), state)


def test_an_unknown_method_is_refused() -> None:
    with pytest.raises(ConfigError, match="kaiming"):
        draw(_parameter("output.weight"), dataclasses.replace(WIDE, init_method="kaiming"), 1)
