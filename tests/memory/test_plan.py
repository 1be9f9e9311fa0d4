"""The plan is read from the JSON that DeepSpeed gets."""

from __future__ import annotations

from dataclasses import replace

import pytest

from neox_train.errors import ConfigError, NotBuiltError
from neox_train.memory.activations import count_activations, count_hidden
from neox_train.memory.plan import plan_rank
from tests.memory.plans import make_cluster, make_config, make_gpu_cluster, make_plan


def test_batches_and_ranks() -> None:
    plan = make_plan(world_size=4, train_micro_batch_size_per_gpu=3, gradient_accumulation_steps=5)
    assert (plan.micro_batch, plan.accumulation_steps, plan.data_parallel_size) == (3, 5, 4)
    assert plan.tokens == 3 * 64 and plan.global_batch == 60


def test_bf16_accumulates_in_fp32_unless_told_otherwise() -> None:
    for stage in (0, 1):
        assert make_plan(precision="bfloat16", zero_optimization={"stage": stage}).accumulation_bytes == 4
    narrow = make_plan(precision="bfloat16", data_types={"grad_accum_dtype": "bf16"}, zero_optimization={"stage": 0})
    assert narrow.accumulation_bytes == 2


def test_a_bf16_pipeline_shares_its_states_out_at_stage_0_too() -> None:
    assert make_plan(precision="bfloat16", zero_optimization={"stage": 0}, pipe_parallel_size=2).zero_stage == 1
    assert make_plan(precision="bfloat16", zero_optimization={"stage": 0}).zero_stage == 0


def test_wire_format_is_the_weights_unless_said() -> None:
    assert make_plan(precision="bfloat16").communication_bytes == 2
    assert make_plan(precision="bfloat16", fp32_allreduce=True).communication_bytes == 4


def test_zero_s_buckets_and_overlap() -> None:
    plan = make_plan(zero_optimization={"stage": 2, "reduce_bucket_size": 1000, "overlap_comm": True})
    assert (plan.zero_stage, plan.reduce_bucket_elements, plan.overlap_comm) == (2, 1000, True)
    assert make_plan(zero_optimization={"stage": 2}).reduce_bucket_elements == 500_000_000


def test_an_unknown_number_format_is_named() -> None:
    with pytest.raises(ConfigError, match="fp13"):
        make_plan(communication_data_type="fp13")


def test_recomputed_layers() -> None:
    assert make_plan().checkpoint_layers == 0
    assert make_plan(checkpoint_activations=True, checkpoint_num_layers=2).checkpoint_layers == 2
    assert make_plan(checkpoint_num_layers=2).checkpoint_layers == 0
    selective = {"checkpoint_activations": True, "checkpoint_granularity": "selective"}
    assert (make_plan(**selective).checkpoint_layers, make_plan(**selective).keeps_products) == (1, True)
    # Compiled layers recompute the rest by themselves.
    compiled = plan_rank(make_config(world_size=1, precision="bfloat16", **selective), make_gpu_cluster())
    assert (compiled.compiled_blocks, compiled.checkpoint_layers, compiled.keeps_products) == (True, 0, False)


def test_kept_inputs_are_shared_by_tensor_parallel_ranks_or_held_by_the_host() -> None:
    shared = {"checkpoint_activations": True, "partition_activations": True, "model_parallel_size": 2}
    assert make_plan(**shared).kept_input_shares == 2
    assert make_plan(**shared, sequence_parallel=True).kept_input_shares == 1
    kept = {"checkpoint_activations": True, "checkpoint_in_cpu": True}
    assert not make_plan(**kept).keeps_inputs_on_host
    on_gpu = plan_rank(make_config(world_size=1, **kept), make_gpu_cluster())
    assert on_gpu.keeps_inputs_on_host
    assert count_activations(replace(on_gpu, keeps_inputs_on_host=False)) - count_activations(
        on_gpu
    ) == on_gpu.architecture.num_layers * count_hidden(on_gpu)


@pytest.mark.parametrize("kind", ["SM3", "madgrad_wd"])
def test_an_optimizer_that_is_not_covered_is_refused(kind: str) -> None:
    config = make_config(optimizer={"type": kind, "params": {"lr": 0.001}})
    with pytest.raises(NotBuiltError, match=kind.lower()):
        plan_rank(config, make_cluster())


def test_offloading_is_read() -> None:
    config = make_config(zero_optimization={"stage": 2, "offload_optimizer": {"device": "cpu", "pin_memory": False}})
    plan = plan_rank(config, make_cluster())
    assert plan.offloads_optimizer and not plan.offloads_weights and not plan.pins_host_memory
