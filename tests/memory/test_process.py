"""What a process holds beside its tensors: NCCL's buffers, one part of the estimate, a communicator at a time."""

from __future__ import annotations

from typing import Any

import pytest

from neox_train.memory.estimate import estimate_memory
from neox_train.memory.plan import plan_stages
from neox_train.memory.process import NCCL_BYTES, count_communicators
from tests.memory.plans import make_config, make_gpu_cluster

LAYERS = {"num_layers": 8, "precision": "bfloat16", "zero_optimization": {"stage": 1}}


@pytest.mark.parametrize(
    ("ranks", "cuts", "communicators"),
    [
        (1, {}, [0]),
        (4, {}, [2]),
        (4, {"model_parallel_size": 4}, [2]),
        (8, {"model_parallel_size": 2}, [3]),
        (4, {"pipe_parallel_size": 4}, [3, 4, 4, 3]),
        (8, {"pipe_parallel_size": 2, "model_parallel_size": 2}, [5, 5]),
    ],
)
def test_communicators_are_counted_by_the_cuts(ranks: int, cuts: dict[str, Any], communicators: list[int]) -> None:
    plans = plan_stages(make_config(world_size=ranks, **LAYERS, **cuts), make_gpu_cluster())
    assert [count_communicators(plan) for plan in plans] == communicators


def test_their_buffers_are_a_part_of_their_own() -> None:
    config = make_config(world_size=4, **LAYERS)
    estimate = estimate_memory(config, make_gpu_cluster())
    assert estimate.parts["communicators"] == 2 * NCCL_BYTES
    assert estimate.shown is not None and estimate.shown > estimate.measurable + 2 * NCCL_BYTES
    alone = estimate_memory(make_config(world_size=1, **LAYERS), make_gpu_cluster(processes_per_node=1))
    assert alone.parts["communicators"] == 0
