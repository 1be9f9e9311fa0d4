"""Host memory beside a GPU's: what one H200's trainings measured, what offloading adds, where the file gives less."""

from __future__ import annotations

from typing import Any

import pytest

from neox_train.config.cluster import Cluster
from neox_train.memory.estimate import estimate_memory
from neox_train.memory.host import CUDA_HOST_BYTES, count_host
from neox_train.memory.offload import count_offloaded
from neox_train.memory.plan import plan_rank
from neox_train.memory.wording import word_host
from tests.memory.plans import make_config, make_gpu_cluster

GIB = 1 << 30
SHAPES = {
    "125M": (12, 768, 12),
    "410M": (24, 1024, 16),
    "1-3B": (24, 2048, 16),
    "2-7B": (32, 2560, 32),
}
MEASURED = {"125M": 2.08, "410M": 3.04, "1-3B": 6.99, "2-7B": 12.17}
"""Peak resident memory in GiB of trainings on one H200 whose layers were compiled already."""


def _config(size: str, **keys: Any) -> Any:
    layers, hidden, heads = SHAPES[size]
    shape = {"num_layers": layers, "hidden_size": hidden, "num_attention_heads": heads}
    more = {"seq_length": 2048, "max_position_embeddings": 2048, "precision": "bfloat16"}
    overrides = {**shape, **more, "zero_optimization": {"stage": 1}, **keys}
    return make_config(world_size=1, vocab_size=50_257, **overrides)


@pytest.fixture
def one_gpu() -> Cluster:
    return make_gpu_cluster(processes_per_node=1)


@pytest.mark.parametrize("size", MEASURED)
def test_host_memory_is_within_a_fifth_of_what_was_measured_and_not_below(size: str, one_gpu: Cluster) -> None:
    parts = count_host(plan_rank(_config(size), one_gpu))
    assert set(parts) == {"process", "initial_weights"}
    assert -0.03 <= sum(parts.values()) / GIB / MEASURED[size] - 1 <= 0.2


def test_offloaded_states_are_in_host_memory_and_not_on_the_gpu(one_gpu: Cluster) -> None:
    keys = {"zero_optimization": {"stage": 2, "offload_optimizer": {"device": "cpu"}}}
    there = plan_rank(_config("1-3B", **keys), one_gpu)
    parameters = 1_414_647_808
    offloaded = count_offloaded(there)
    # Master weights, two moments and a gradient in fp32, and a copy in 16 bits.
    assert offloaded.total == pytest.approx(18 * parameters, rel=0.01)
    host = count_host(there)
    assert host["offloaded"] == offloaded.total
    assert sum(host.values()) > CUDA_HOST_BYTES + offloaded.total
    estimate = estimate_memory(_config("1-3B", **keys), one_gpu)
    here = estimate_memory(_config("1-3B", zero_optimization={"stage": 2}), one_gpu)
    assert estimate.parts["optimizer_states"] == estimate.parts["master_weights"] == 0
    assert here.total - estimate.total > 12 * parameters


def test_memory_that_is_not_pinned_is_not_rounded_up(one_gpu: Cluster) -> None:
    block = {"device": "cpu", "pin_memory": False}
    plan = plan_rank(_config("410M", zero_optimization={"stage": 2, "offload_optimizer": block}), one_gpu)
    assert "rounding" not in count_host(plan)


def test_the_model_moves_to_the_gpu_in_fp32_unless_it_is_sharded_or_offloaded(one_gpu: Cluster) -> None:
    starts = {}
    for stage in (2, 3):
        config = _config("1-3B", zero_optimization={"stage": stage})
        starts[stage] = estimate_memory(config, one_gpu).phases["start"]
    assert starts[2] - starts[3] == pytest.approx(2 * 1_414_647_808, rel=0.05)


def test_less_than_is_needed_in_the_cluster_file_is_told() -> None:
    estimate = estimate_memory(_config("2-7B"), make_gpu_cluster(processes_per_node=1, memory_gib_per_process=8))
    assert "more than memory_gib_per_process (8.00 GiB)" in word_host(estimate)
    enough = estimate_memory(_config("2-7B"), make_gpu_cluster(processes_per_node=1, memory_gib_per_process=64))
    assert "more than" not in word_host(enough) and "weights drawn in fp32 at the start" in word_host(enough)
