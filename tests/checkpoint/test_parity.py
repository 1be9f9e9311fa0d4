from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from neox_train.checkpoint.parity import build_trained_model, compare
from tests.model.architectures import make_architecture, make_random_model, make_tokens

ARCHITECTURE = make_architecture()


class _Shifted:
    """Stands where the exported model stands: the trained one's logits, changed by a function."""

    def __init__(self, model: Any, change: Any) -> None:
        self._model, self._change = model, change

    def __call__(self, *, input_ids: torch.Tensor) -> SimpleNamespace:
        logits = self._model(input_ids)[..., : ARCHITECTURE.vocab_size].clone()
        return SimpleNamespace(logits=self._change(logits))


@pytest.fixture(scope="module")
def weights() -> dict[str, torch.Tensor]:
    return make_random_model(ARCHITECTURE).state_dict()


def _measure(weights: dict[str, torch.Tensor], change: Any, **options: Any) -> Any:
    model = build_trained_model(weights, ARCHITECTURE, dtype="float32")
    windows = make_tokens(ARCHITECTURE, batch=3, length=25)
    return compare(model, _Shifted(model, change), windows, **options)


def test_equal_models_are_equal(weights: dict[str, torch.Tensor]) -> None:
    parity = _measure(weights, lambda logits: logits)
    assert parity.max_abs_difference == 0 and parity.mean_abs_difference == 0
    assert parity.argmax_agreement == 1 and parity.within_tolerance
    assert (parity.windows, parity.tokens) == (3, 72)
    model = make_random_model(ARCHITECTURE)
    loss = model.loss(make_tokens(ARCHITECTURE, batch=3, length=25)).item()
    assert parity.trained_perplexity == parity.exported_perplexity == pytest.approx(math.exp(loss), rel=1e-4)


def test_one_wrong_logit_is_found(weights: dict[str, torch.Tensor]) -> None:
    def change(logits: torch.Tensor) -> torch.Tensor:
        logits[0, 7, 11] += 0.5
        return logits

    parity = _measure(weights, change)
    assert parity.max_abs_difference == pytest.approx(0.5, abs=1e-5)
    assert parity.mean_abs_difference == pytest.approx(0.5 / (24 * 90), rel=1e-4)
    assert not parity.within_tolerance
    assert _measure(weights, change, tolerance=0.6).within_tolerance


def test_other_first_choices_are_counted(weights: dict[str, torch.Tensor]) -> None:
    parity = _measure(weights, lambda logits: -logits)
    assert parity.argmax_agreement == 0
    assert parity.exported_perplexity != pytest.approx(parity.trained_perplexity, rel=0.01)


def test_a_logit_that_is_not_finite_fails(weights: dict[str, torch.Tensor]) -> None:
    calls = []

    def change(logits: torch.Tensor) -> torch.Tensor:
        calls.append(1)
        if len(calls) == 1:
            logits[0, 0, 0] = math.nan
        return logits

    parity = _measure(weights, change)
    assert parity.max_abs_difference is None and not parity.within_tolerance


def test_the_trained_model_is_rounded_as_the_export_is(weights: dict[str, torch.Tensor]) -> None:
    rounded = build_trained_model(weights, ARCHITECTURE, dtype="bfloat16")
    for name, parameter in rounded.named_parameters():
        assert torch.equal(parameter, weights[name][: parameter.shape[0]].bfloat16().float())
        assert parameter.dtype == torch.float32


def test_fp32_weights_are_shared_and_not_copied(weights: dict[str, torch.Tensor]) -> None:
    model = build_trained_model(weights, ARCHITECTURE, dtype="float32")
    assert all(p.data_ptr() == weights[name].data_ptr() for name, p in model.named_parameters())
