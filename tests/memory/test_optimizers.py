"""Optimizer states and step temporaries."""

from __future__ import annotations

import pytest

from neox_train.memory.groups import list_groups
from neox_train.memory.optimizers import choose_states, count_state_bytes, count_step_bytes
from neox_train.memory.plan import OptimizerKind
from tests.memory.plans import make_plan


def test_adam_keeps_two_moments_and_a_step_count() -> None:
    assert count_state_bytes([("adam", 1000), ("adam", 10)]) == 8 * 1010 + 2 * 4


def test_8bit_adam_keeps_bytes_block_scales_and_two_code_books() -> None:
    assert count_state_bytes([("adam_8bit", 10_000)]) == 2 * 10_000 + 2 * 4 * 40 + 2048


def test_8bit_adam_keeps_small_tensors_in_fp32() -> None:
    assert count_state_bytes([("adam_8bit", 4095)]) == 8 * 4095
    assert count_state_bytes([("adam_8bit", 4096)]) == 2 * 4096 + 2 * 4 * 16 + 2048


def test_8bit_lion_keeps_one_state_and_one_code_book() -> None:
    assert count_state_bytes([("lion_8bit", 10_000)]) == 10_000 + 4 * 40 + 1024


def test_embeddings_beside_8bit_states_keep_32_bits_and_no_code_book() -> None:
    assert count_state_bytes([("adam_32bit", 10_000), ("adam_8bit", 100)]) == 8 * 10_100
    groups = list_groups(make_plan(use_bnb_optimizer=True))
    assert [group.states for group in groups] == ["adam_32bit", "adam_8bit", "adam_8bit"]
    assert groups[0].count == make_plan().architecture.padded_vocab_size * make_plan().architecture.hidden_size


def test_muon_leaves_embeddings_biases_and_norms_to_adam() -> None:
    plan = make_plan(optimizer={"type": "Muon", "params": {"lr": 0.1}}, zero_optimization={"stage": 0})
    assert [group.states for group in list_groups(plan)] == ["muon", "adam", "adam"]


@pytest.mark.parametrize(("kind", "expected"), [("lion", 4000), ("sgd_momentum", 4000), ("sgd", 0)])
def test_other_optimizers(kind: OptimizerKind, expected: int) -> None:
    states = choose_states(kind, is_embedding=False, is_hidden_matrix=False)
    assert count_state_bytes([(states, 1000)]) == expected


def test_adam_on_a_cpu_needs_two_copies_of_the_largest_tensor() -> None:
    assert count_step_bytes(make_plan(), [10, 500, 20]) == 2 * 4 * 500
