"""Quantities as people read them."""

from __future__ import annotations

import math

import pytest

from neox_train.monitoring import quantities as q


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (0, "0"),
        (999, "999"),
        (9_999, "9\u202f999"),
        (12_345, "12.3K"),
        (7_087_104, "7.09M"),
        (2.07e10, "20.7B"),
        (3e12, "3.00T"),
        (None, "–"),
        (math.nan, "–"),
        (True, "–"),
    ],
)
def test_counts(value: float | None, shown: str):
    assert q.format_count(value) == shown


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (0.42, "0.4 s"),
        (42, "42 s"),
        (200, "3 min 20 s"),
        (3599.7, "1 h 00 min"),
        (18_150, "5 h 02 min"),
        (183_600, "2 d 03 h"),
        (None, "–"),
    ],
)
def test_durations(value: float | None, shown: str):
    assert q.format_seconds(value) == shown


def test_sizes():
    assert [q.format_gib(v) for v in (0.05, 0.742, 79.6, 141)] == ["51 MiB", "0.74 GiB", "79.6 GiB", "141 GiB"]
    assert [q.format_bytes(v) for v in (812, 197_794, 9.6e6, 1e11)] == ["812 B", "198 kB", "9.60 MB", "100 GB"]


def test_shares_and_decimals():
    assert q.format_percent(0.467) == "46.7\u202f%"
    assert q.format_percent(-0.052, signed=True) == "−5.2\u202f%"
    assert q.format_percent(0.052, signed=True) == "+5.2\u202f%"
    assert q.format_decimal(3.14159) == "3.142"
    assert q.format_decimal(2e-5) == "2.00e-05"
    assert q.format_decimal(0.0) == "0.000"
