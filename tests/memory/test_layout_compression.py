"""What ``neox-train plan`` says of gradient compression follows from the layout and the network."""

from dataclasses import replace
from typing import Any

import pytest

from neox_train.config.cluster import load_cluster
from neox_train.memory.compression import count_compression, share_powersgd
from neox_train.memory.layout_compression import word_compression
from neox_train.memory.throughput.rates import HardwareRates, read_rates
from neox_train.memory.throughput.step import predict_step
from tests.memory.plans import make_plan
from tests.memory.published import PROFILES, make_architecture, make_gpu_plan

MODEL = make_architecture("1.3B")


def rates(**changes: Any) -> HardwareRates:
    read = read_rates(load_cluster(PROFILES / "h100" / "cluster.yaml"), "bfloat16")
    assert read is not None
    return replace(read, **changes)


def word(found: HardwareRates, **layout: Any) -> str | None:
    plan = replace(make_gpu_plan(MODEL, micro_batch=4, **layout), powersgd_rank=4)
    step = predict_step([plan], found)
    assert step is not None
    return word_compression(plan, step, found)


def test_a_fast_network_needs_none_and_a_slow_one_the_strongest() -> None:
    assert "gradient_compression none: at" in str(word(rates(), replicas=16, zero_stage=0))
    # 1 Gb/s for a node of eight GPUs.
    slow = word(rates(network_bytes=0.125e9), replicas=16, zero_stage=0)
    assert "gradient_compression powersgd: at 0.125 GB/s" in str(slow)


def test_a_cut_layout_is_told_what_its_cut_rules_out() -> None:
    told = word(rates(), replicas=16, zero_stage=1)
    assert "% of this layout's step; what saves more than 16 bits needs zero_optimization.stage 0" in str(told)


def test_nothing_is_said_of_one_replica_and_nothing_predicted_without_a_network() -> None:
    assert word(rates(), replicas=1, zero_stage=0) is None
    assert "has no network.gb_per_second" in str(word_without_network())


def word_without_network() -> str | None:
    plan = replace(make_gpu_plan(MODEL, replicas=16, zero_stage=0), powersgd_rank=4)
    step = predict_step([plan], rates())
    assert step is not None
    return word_compression(plan, step, rates(network_bytes=None))


@pytest.mark.parametrize("rank", [1, 4, 32])
def test_powersgd_s_share_is_factors_and_what_stays_whole(rank: int) -> None:
    plan = make_plan(
        gradient_compression="powersgd", powersgd_rank=rank, train_batch_size=8, train_micro_batch_size_per_gpu=None
    )
    whole_bytes = count_compression(replace(plan, compression="local_update")) // 2
    factors_bytes = count_compression(plan) - whole_bytes
    assert factors_bytes / whole_bytes <= share_powersgd(plan) <= 1
    smaller = replace(plan, powersgd_rank=1)
    assert share_powersgd(smaller) <= share_powersgd(plan)
