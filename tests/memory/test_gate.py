"""The gate's limits and the budget."""

from __future__ import annotations

import pytest

from neox_train.config.cluster import Gate
from neox_train.errors import ConfigError
from neox_train.memory.gate import judge, read_budget
from tests.memory.plans import make_cluster, make_gpu_cluster


@pytest.mark.parametrize(
    ("total", "verdict"),
    [
        (0, "fits"),
        (880, "fits"),
        (881, "tight"),
        (950, "tight"),
        (951, "does_not_fit"),
        (5000, "does_not_fit"),
    ],
)
def test_limits_belong_to_the_gentler_side(total: int, verdict: str) -> None:
    assert judge(total, 1000, Gate()) == verdict


def test_limits_are_the_cluster_s() -> None:
    gate = Gate(warn_above=0.5, refuse_above=0.6)
    assert [judge(total, 1000, gate) for total in (500, 600, 601)] == ["fits", "tight", "does_not_fit"]


def test_budget_is_a_gpu_s_memory_or_a_process_s_share() -> None:
    assert read_budget(make_gpu_cluster()) == 40 << 30
    assert read_budget(make_cluster(memory_gib_per_process=1.5)) == 3 << 29


def test_a_cluster_file_without_memory_is_an_error_that_names_the_key() -> None:
    with pytest.raises(ConfigError, match="memory_gib_per_process"):
        read_budget(make_cluster(memory_gib_per_process=None))
