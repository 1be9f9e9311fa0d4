"""Optimizer states and step temporaries."""

from __future__ import annotations

import pytest

from neox_train.memory.optimizers import count_state_bytes, count_step_bytes
from tests.memory.plans import make_plan


def test_adam_keeps_two_moments_and_a_step_count() -> None:
    assert count_state_bytes("adam", [1000, 10]) == 8 * 1010 + 2 * 4


def test_8bit_adam_keeps_bytes_block_scales_and_two_code_books() -> None:
    assert count_state_bytes("adam_8bit", [10_000]) == 2 * 10_000 + 2 * 4 * 40 + 2048


def test_8bit_adam_keeps_small_tensors_in_fp32() -> None:
    assert count_state_bytes("adam_8bit", [4095]) == 8 * 4095
    assert count_state_bytes("adam_8bit", [4096]) == 2 * 4096 + 2 * 4 * 16 + 2048


@pytest.mark.parametrize(("kind", "expected"), [("lion", 4000), ("sgd_momentum", 4000), ("sgd", 0)])
def test_other_optimizers(kind: str, expected: int) -> None:
    assert count_state_bytes(kind, [1000]) == expected  # type: ignore[arg-type]


def test_adam_on_a_cpu_needs_two_copies_of_the_largest_tensor() -> None:
    assert count_step_bytes(make_plan(), [10, 500, 20]) == 2 * 4 * 500
