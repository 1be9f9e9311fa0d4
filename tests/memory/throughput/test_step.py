"""The predicted step: its parts, and how they answer to layout, links and what the cluster file leaves out."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from neox_train.config.cluster import Cluster, load_cluster
from neox_train.memory.throughput.collectives import Group, predict_all_reduce, predict_gather
from neox_train.memory.throughput.compute import (
    count_layer_weights,
    count_rank_parameters,
    predict_products,
    predict_update,
)
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


def test_recomputation_that_keeps_products_costs_only_what_memory_bounds() -> None:
    plan = make_gpu_plan(MODEL, micro_batch=4, checkpoint_layers=1)
    whole, kept = predict_step([plan], _rates()), predict_step([replace(plan, keeps_products=True)], _rates())
    assert whole is not None and kept is not None
    assert 0 < kept.recomputation < 0.5 * whole.recomputation


def test_fp8_shortens_products_only_and_edge_layers_less() -> None:
    plan = make_gpu_plan(MODEL, micro_batch=8)
    narrow = replace(plan, te_attention=True, te_mlp=True, fp8="delayed")
    wide = predict_products(replace(narrow, fp8=None), _rates())
    assert 0.5 * wide < predict_products(narrow, _rates()) < 0.7 * wide
    assert predict_products(narrow, _rates()) < predict_products(replace(narrow, fp8="current"), _rates())
    some = predict_products(replace(narrow, edge_layers=4), _rates())
    whole = predict_products(narrow, _rates())
    assert some == pytest.approx(whole + (wide - whole) * 8 / 24)
    assert predict_products(replace(narrow, te_attention=False), _rates()) > whole


def test_without_a_peak_of_fp8_it_is_predicted_as_16_bits() -> None:
    narrow = replace(make_gpu_plan(MODEL), te_attention=True, te_mlp=True, fp8="delayed")
    rates = _rates(fp8_flops=None)
    assert predict_products(narrow, rates) == predict_products(replace(narrow, fp8=None), rates)


def test_small_products_gain_less_from_fp8() -> None:
    def gain(model: str) -> float:
        narrow = replace(make_gpu_plan(make_architecture(model)), te_attention=True, te_mlp=True, fp8="delayed")
        return predict_products(replace(narrow, fp8=None), _rates()) / predict_products(narrow, _rates())

    assert 1 < gain("125M") < gain("1.3B") < gain("7B") < 2


def test_eight_bit_states_and_deepspeed_s_wrapper_lengthen_the_update() -> None:
    plan = replace(make_gpu_plan(MODEL), flat_masters=True)
    wrapped = replace(plan, flat_masters=False, precision="fp16")
    assert predict_update(replace(plan, optimizer="adam_8bit"), _rates()) > 2 * predict_update(plan, _rates())
    assert predict_update(wrapped, _rates()) > 2 * predict_update(plan, _rates())


def test_another_share_of_the_peak_scales_fp8_with_it() -> None:
    rates = _rates()
    assert rates.fp8_flops is not None
    half = rates.with_matrix_fraction(0.5 * rates.matrix_flops / rates.peak_flops)
    assert (half.matrix_flops, half.fp8_flops) == pytest.approx((rates.matrix_flops / 2, rates.fp8_flops / 2))


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
