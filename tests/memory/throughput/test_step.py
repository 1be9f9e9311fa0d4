"""The predicted step: its parts, and how they answer to layout, links and what the cluster file leaves out."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from neox_train.config.cluster import Cluster, load_cluster
from neox_train.memory.throughput.collectives import Group, predict_all_reduce, predict_gather
from neox_train.memory.throughput.compute import count_layer_weights, count_rank_parameters
from neox_train.memory.throughput.rates import HardwareRates, read_rates
from neox_train.memory.throughput.step import PARTS, StepTime, predict_step
from tests.memory.published import PROFILES, make_architecture, make_gpu_plan

MODEL = make_architecture("1.3B")


def _rates(**changes: Any) -> HardwareRates:
    rates = read_rates(load_cluster(PROFILES / "h100" / "cluster.yaml"), "bfloat16")
    assert rates is not None
    return replace(rates, **changes)


def _step(**layout: Any) -> StepTime:
    step = predict_step([make_gpu_plan(MODEL, **layout)], _rates())
    assert step is not None
    return step


def test_parts_add_up_and_none_is_negative() -> None:
    step = _step(micro_batch=4, accumulation_steps=2, replicas=16, tensor_parallel=2, checkpoint_layers=1)
    assert all(getattr(step, name) >= 0 for name in PARTS)
    assert step.total == pytest.approx(sum(getattr(step, name) for name in PARTS))
    assert step.tokens == 4 * 2 * 16 * 2048 and step.gpus == 32


def test_counts_are_those_of_the_architecture() -> None:
    plan = make_gpu_plan(MODEL)
    assert count_layer_weights(plan) == 24 * 12 * 2048**2
    assert count_rank_parameters(plan) == pytest.approx(24 * 12 * 2048**2 + 2 * 50_304 * 2048, rel=0.002)
    assert count_rank_parameters(make_gpu_plan(MODEL, tensor_parallel=2)) < 0.51 * count_rank_parameters(plan)


def test_recomputation_costs_a_forward_pass() -> None:
    kept, recomputed = _step(micro_batch=4), _step(micro_batch=4, checkpoint_layers=1)
    assert kept.recomputation == 0
    assert 0.25 * kept.compute < recomputed.recomputation < kept.compute / 3


def test_a_ring_moves_all_but_a_rank_s_own_part() -> None:
    rates = _rates(latency_seconds=0.0)
    gigabyte = 1e9
    assert predict_gather(gigabyte, Group(4), rates) == pytest.approx(0.75 / (rates.link_bytes / 1e9))
    assert predict_all_reduce(gigabyte, Group(4), rates) == pytest.approx(2 * predict_gather(gigabyte, Group(4), rates))
    assert predict_gather(gigabyte, Group(1), rates) == 0


def test_groups_of_a_node_share_its_network() -> None:
    rates = _rates(latency_seconds=0.0)
    alone, beside = predict_gather(1e9, Group(8, 1), rates), predict_gather(1e9, Group(8, 4), rates)
    assert beside == pytest.approx(4 * alone)


def test_more_stages_idle_more_and_more_micro_batches_idle_less() -> None:
    def share(stages: int, steps: int) -> float:
        plan = make_gpu_plan(MODEL, accumulation_steps=steps)
        cut = replace(plan, architecture=replace(MODEL, num_layers=24 // stages), links=frozenset())
        step = predict_step([cut] * stages, _rates())
        assert step is not None
        return step.bubble / (step.bubble + step.compute)

    assert share(2, 8) == pytest.approx(1 / 9, rel=0.01)
    assert share(4, 8) > share(2, 8) > share(2, 32)


def test_tensor_parallelism_between_nodes_is_slower_than_inside() -> None:
    inside, between = _step(tensor_parallel=4), _step(tensor_parallel=8)
    assert between.tensor_parallel > inside.tensor_parallel


def test_without_the_network_s_bandwidth_only_one_node_is_predicted() -> None:
    rates = _rates(network_bytes=None)
    assert predict_step([make_gpu_plan(MODEL, replicas=4)], rates) is not None
    assert predict_step([make_gpu_plan(MODEL, replicas=8)], rates) is None


def test_no_rates_without_gpus_or_without_memory_bandwidth() -> None:
    cluster = load_cluster(PROFILES / "h100" / "cluster.yaml")
    assert read_rates(Cluster(), "bfloat16") is None
    assert cluster.gpu is not None
    slow = cluster.model_copy(update={"gpu": cluster.gpu.model_copy(update={"memory_gb_per_second": None})})
    assert read_rates(slow, "bfloat16") is None


def test_only_measured_rates_are_called_calibrated() -> None:
    cluster = load_cluster(PROFILES / "h100" / "cluster.yaml")
    for measured in (False, True):
        rates = cluster.rates.model_copy(update={"measured": measured})
        read = read_rates(cluster.model_copy(update={"rates": rates}), "bfloat16")
        assert read is not None and read.calibrated is measured


def test_1_bit_optimizers_update_at_adam_s_speed() -> None:
    plan = make_gpu_plan(MODEL, micro_batch=4, replicas=2)
    adam, signs = (predict_step([replace(plan, optimizer=kind)], _rates()) for kind in ("adam", "one_bit"))
    assert adam is not None and signs is not None
    assert signs.update == adam.update
