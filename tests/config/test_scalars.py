from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from neox_train.config.scalars import resolve_scalar


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1e-8", 1e-8),
        ("6e-4", 6e-4),
        ("1.e-5", 1e-5),
        ("1E-8", 1e-8),
        (".95", 0.95),
        ("9e-1", 0.9),
        ("+2.5", 2.5),
        ("1_000", 1000),
        ("0x10", 16),
        ("0", 0),
        ("0.0", 0.0),
        ("-3", -3),
        ("5e8", 5e8),
    ],
)
def test_numbers_as_people_write_them(text: str, value: float) -> None:
    assert resolve_scalar(text) == value
    assert type(resolve_scalar(text)) is type(value)


@pytest.mark.parametrize("text", ["0123", "24:10", "1e", "e5", "6e-4x", "1.2.3", "_1", "-", "1 2", "0x", "nan", "inf"])
def test_what_is_no_number_stays_text(text: str) -> None:
    assert resolve_scalar(text) == text


@pytest.mark.parametrize("text", ["true", "True", "TRUE", "yes", "Yes", "on", "ON"])
def test_truth(text: str) -> None:
    assert resolve_scalar(text) is True
    opposite = {"true": "false", "yes": "no", "on": "off"}[text.lower()]
    assert resolve_scalar(opposite) is False
    assert resolve_scalar(opposite.upper()) is False


@pytest.mark.parametrize("text", ["", "~", "null", "None"])
def test_nothing(text: str) -> None:
    assert resolve_scalar(text) == ("None" if text == "None" else None)


def test_special_floats() -> None:
    assert resolve_scalar(".inf") == math.inf
    assert resolve_scalar("-.inf") == -math.inf
    assert math.isnan(resolve_scalar(".NaN"))


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_every_float_reads_back_from_its_shortest_text(number: float) -> None:
    assert resolve_scalar(repr(number)) == number
