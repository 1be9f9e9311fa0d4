from types import SimpleNamespace
from typing import Any, cast

import pytest
import torch

from neox_train.errors import NotBuiltError
from neox_train.training.muon import MuonWithAdamW
from neox_train.training.optimizer import build_optimizer, set_learning_rate
from neox_train.training.parameter_groups import STATE_BITS, STEPPED_BY_MUON

CPU = torch.device("cpu")


def build(
    kind: str, *, eight_bit: bool = False, decay: float = 0.0, marks: dict[str, Any] | None = None, **params: Any
) -> torch.optim.Optimizer:
    config = SimpleNamespace(
        optimizer_type=kind.lower(),
        optimizer={"type": kind, "params": params},
        use_bnb_optimizer=eight_bit,
        bnb_paged=False,
        zero_optimization=None,
    )
    weight = torch.nn.Parameter(torch.full((128, 64), 2.0))
    return build_optimizer(cast(Any, config), [{"params": [weight], "weight_decay": decay, **(marks or {})}], CPU)


def step(optimizer: torch.optim.Optimizer, gradient: float) -> float:
    (weight,) = optimizer.param_groups[0]["params"]
    weight.grad = torch.full_like(weight, gradient)
    optimizer.step()
    assert float(weight.detach().std()) < 1e-6
    return float(weight[0, 0].detach())


@pytest.mark.parametrize("eight_bit", [False, True])
def test_adam_decays_apart_from_the_gradient(eight_bit: bool) -> None:
    if eight_bit:
        pytest.importorskip("bitsandbytes", reason="pip install 'neox-train[bnb]'")
    optimizer = build("Adam", eight_bit=eight_bit, decay=0.1, lr=0.01, betas=[0.9, 0.95], eps=1e-8)
    # The first step of Adam is lr times the gradient's sign; decoupled decay adds lr * decay * weight.
    assert step(optimizer, 5.0) == pytest.approx(2.0 - 0.01 - 0.01 * 0.1 * 2.0, rel=1e-4)


@pytest.mark.parametrize("kind", ["CPU_torch_adam", pytest.param("CPU_Adam", marks=pytest.mark.full)])
def test_adam_for_weights_in_host_memory_steps_as_adam(kind: str) -> None:
    ours, adam = (build(name, decay=0.1, lr=0.01, betas=[0.9, 0.95]) for name in (kind, "Adam"))
    for gradient in (5.0, -1.0, 0.5):
        assert step(ours, gradient) == pytest.approx(step(adam, gradient), rel=1e-6)


def test_eight_bits_hold_the_moments() -> None:
    pytest.importorskip("bitsandbytes", reason="pip install 'neox-train[bnb]'")
    optimizer = build("Adam", eight_bit=True, lr=0.01)
    step(optimizer, 1.0)
    (state,) = optimizer.state.values()
    assert state["state1"].dtype == state["state2"].dtype == torch.uint8


def test_a_group_of_32_bits_keeps_them_beside_8_bit_ones() -> None:
    pytest.importorskip("bitsandbytes", reason="pip install 'neox-train[bnb]'")
    optimizer = build("Adam", eight_bit=True, marks={STATE_BITS: 32}, lr=0.01)
    optimizer.add_param_group({"params": [torch.nn.Parameter(torch.ones(128, 64))], "weight_decay": 0.0})
    for group in optimizer.param_groups:
        group["params"][0].grad = torch.ones(128, 64)
    optimizer.step()
    assert [state["state1"].dtype for state in optimizer.state.values()] == [torch.float32, torch.uint8]


def test_8_bit_lion_steps_as_lion() -> None:
    pytest.importorskip("bitsandbytes", reason="pip install 'neox-train[bnb]'")
    lions = [build("Lion", eight_bit=eight_bit, decay=0.1, lr=0.01, betas=[0.9, 0.99]) for eight_bit in (False, True)]
    for gradient in (3.0, -1.0, -4.0):
        assert step(lions[1], gradient) == pytest.approx(step(lions[0], gradient), rel=1e-5)


def test_muon_steps_a_marked_matrix_along_orthogonal_directions_and_the_rest_as_adamw() -> None:
    weight = torch.nn.Parameter(torch.full((128, 64), 2.0))
    vector = torch.nn.Parameter(torch.full((8,), 2.0))
    marked, rest = (
        {"params": [weight], STEPPED_BY_MUON: True, "weight_decay": 0.0},
        {"params": [vector], "weight_decay": 0.0},
    )
    muon = MuonWithAdamW([marked, rest], lr=0.01)
    before = weight.detach().clone()
    weight.grad = torch.randn(128, 64, generator=torch.Generator().manual_seed(1))
    vector.grad = torch.full((8,), 5.0)
    muon.step()
    # Singular values of an orthogonalised step are near 1, here times lr * 0.2 * sqrt(longer side).
    values = torch.linalg.svdvals(before - weight.detach()) / (0.01 * 0.2 * 128**0.5)
    assert float(values.min()) > 0.6 and float(values.max()) < 1.3
    assert torch.allclose(vector.detach(), torch.full((8,), 2.0 - 0.01), rtol=1e-5)
    assert set(muon.state[weight]) == {"momentum_buffer"} and "exp_avg_sq" in muon.state[vector]


def test_sgd_steps_along_the_gradient() -> None:
    assert step(build("SGD", lr=0.5), 1.0) == pytest.approx(1.5)
    momentum = build("SGD", lr=0.5, momentum=0.9)
    assert [step(momentum, 1.0), step(momentum, 1.0)] == [pytest.approx(1.5), pytest.approx(1.5 - 0.5 * 1.9)]


def test_lion_steps_by_the_sign_of_the_interpolated_momentum() -> None:
    lion = build("Lion", decay=0.1, lr=0.01, betas=[0.5, 0.5])
    first = step(lion, 3.0)
    assert first == pytest.approx(2.0 * (1 - 0.001) - 0.01)
    # Momentum 1.5 and gradient -1 still point up; a gradient of -4 turns the sign.
    second = step(lion, -1.0)
    assert second == pytest.approx(first * (1 - 0.001) - 0.01)
    assert step(lion, -4.0) == pytest.approx(second * (1 - 0.001) + 0.01)


def test_a_choice_between_implementations_changes_nothing() -> None:
    assert step(build("Adam", lr=0.01, torch_adam=True), 1.0) == step(build("Adam", lr=0.01), 1.0)


@pytest.mark.parametrize("kind", ["sm3", "Adagrad"])
def test_an_optimizer_that_is_not_built_is_refused(kind: str) -> None:
    with pytest.raises(NotBuiltError, match=rf"(?i){kind}.*Adam, SGD, Lion or Muon"):
        build(kind, lr=0.1)
    with pytest.raises(NotBuiltError, match="use_bnb_optimizer"):
        build("SGD", eight_bit=True, lr=0.1)


def test_the_learning_rate_reaches_every_group() -> None:
    optimizer = build("SGD", lr=0.5)
    optimizer.add_param_group({"params": [torch.nn.Parameter(torch.ones(2))]})
    set_learning_rate(optimizer, 0.25)
    assert [group["lr"] for group in optimizer.param_groups] == [0.25, 0.25]
