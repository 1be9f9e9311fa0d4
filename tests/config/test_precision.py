from __future__ import annotations

from typing import Any

import pytest

from neox_train.config.precision import derive_precision
from tests.config.files import load_tiny, refuse, refuse_tiny


@pytest.mark.parametrize(
    ("precision", "fp16", "bf16", "expected"),
    [
        (None, None, None, "fp32"),
        ("fp32", None, None, "fp32"),
        ("fp16", None, None, "fp16"),
        ("bfloat16", None, None, "bfloat16"),
        (None, {"enabled": True}, None, "fp16"),
        (None, {"enabled": True, "type": "bfloat16"}, None, "bfloat16"),
        ("bfloat16", {"enabled": True, "type": "bfloat16"}, None, "bfloat16"),
        (None, {"enabled": False, "type": "bfloat16"}, None, "fp32"),
        (None, {"enabled": True, "type": "fp16"}, None, "fp16"),
        (None, {"enabled": False}, None, "fp32"),
        (None, None, {"enabled": True}, "bfloat16"),
        ("bfloat16", {"enabled": False}, {"enabled": True}, "bfloat16"),
        ("bfloat16", {"enabled": False}, None, "bfloat16"),
    ],
)
def test_the_format_in_force(precision: str | None, fp16: Any, bf16: Any, expected: str) -> None:
    assert derive_precision(precision, fp16, bf16) == expected


@pytest.mark.parametrize(
    ("precision", "fp16", "bf16", "expected"),
    [
        (None, {"enabled": True}, {"enabled": True}, "are both true"),
        ("bfloat16", {"enabled": True}, None, "but fp16.enabled is true"),
        ("fp16", {"enabled": True, "type": "bfloat16"}, None, "but fp16.type is bfloat16"),
        ("fp32", {"enabled": True, "type": "bfloat16"}, None, "but bf16.enabled is true"),
        ("fp32", None, {"enabled": True}, "but bf16.enabled is true"),
        ("fp16", {"enabled": False}, None, "fp16.enabled is false"),
        ("bfloat16", None, {"enabled": False}, "bf16.enabled is false"),
        (None, {"loss_scale": 0}, None, "does not say enabled"),
    ],
)
def test_contradictions(precision: str | None, fp16: Any, bf16: Any, expected: str) -> None:
    assert expected in refuse(lambda: derive_precision(precision, fp16, bf16))


def test_fp16_defaults_are_written_out() -> None:
    config = load_tiny(precision="fp16")
    assert config.fp16 == {
        "enabled": True,
        "loss_scale": 0.0,
        "initial_scale_power": 16,
        "loss_scale_window": 1000,
        "hysteresis": 2,
        "min_loss_scale": 1.0,
    }
    assert load_tiny(fp16={"enabled": True, "fp16": True, "initial_scale_power": 12}).fp16["initial_scale_power"] == 12


def test_bfloat16_accumulates_in_fp32_unless_told_otherwise() -> None:
    sharing = {"stage": 1}
    config = load_tiny(precision="bfloat16", zero_optimization=sharing)
    assert config.data_types == {"grad_accum_dtype": "fp32"}
    written = load_tiny(precision="bfloat16", data_types={"grad_accum_dtype": "bf16"}, zero_optimization=sharing)
    assert written.data_types == {"grad_accum_dtype": "bf16"}


def test_bfloat16_at_zero_stage_0_accumulates_as_at_any_other() -> None:
    assert load_tiny(precision="bfloat16").data_types == {"grad_accum_dtype": "fp32"}
    sentence = refuse_tiny(precision="bfloat16", data_types={"grad_accum_dtype": "fp16"})
    assert "data_types.grad_accum_dtype is fp16" in sentence and "set it to fp32" in sentence
    assert load_tiny(precision="bfloat16").bf16 == {"enabled": True}


def test_capitals_in_literals() -> None:
    assert load_tiny(precision="BFloat16").precision == "bfloat16"
    assert "'bf16'; one of 'fp16', 'fp32' or 'bfloat16' is wanted" in refuse_tiny(precision="bf16")
