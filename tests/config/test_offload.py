"""Offloading: what is honoured, and the phrase for each layout that it does not go with."""

from __future__ import annotations

from typing import Any

import pytest

from neox_train.config.deepspeed import deepspeed_json
from neox_train.config.hardware import require_hardware
from neox_train.config.offload import (
    list_offload_problems,
    offloads_optimizer,
    offloads_weights,
    pins_host_memory,
)
from neox_train.config.support import require_trainable
from neox_train.errors import ConfigError
from tests.memory.plans import make_config, make_gpu_cluster

CPU = {"device": "cpu"}
BF16 = {"precision": "bfloat16"}


def _zero(stage: int, **blocks: Any) -> dict[str, Any]:
    return {"zero_optimization": {"stage": stage, **blocks}}


@pytest.mark.parametrize(
    "keys",
    [
        _zero(1, offload_optimizer=CPU),
        {**BF16, **_zero(2, offload_optimizer=CPU)},
        {**BF16, **_zero(3, offload_optimizer=CPU, offload_param={"device": "cpu", "pin_memory": False})},
        {**BF16, **_zero(2, offload_optimizer=CPU), "model_parallel_size": 2},
    ],
)
def test_what_is_built_trains_and_reaches_deepspeed(keys: dict[str, Any]) -> None:
    config = make_config(**keys)
    require_trainable(config)
    assert offloads_optimizer(config)
    engine = deepspeed_json(config)
    assert engine["zero_optimization"]["offload_optimizer"] == CPU
    assert engine["zero_force_ds_cpu_optimizer"] is False


@pytest.mark.parametrize(
    "block", [{"device": "none"}, {"device": "none", "pin_memory": True}, {"device": None}, {}, None]
)
def test_none_offloads_nothing(block: dict[str, Any] | None) -> None:
    config = make_config(**_zero(2, offload_optimizer=block, offload_param=block))
    assert not offloads_optimizer(config) and not offloads_weights(config) and not pins_host_memory(config)
    require_trainable(config)
    engine = deepspeed_json(config)
    assert "zero_force_ds_cpu_optimizer" not in engine
    assert not {"offload_optimizer", "offload_param"} & engine["zero_optimization"].keys()


def test_host_memory_is_pinned_unless_the_key_says_no() -> None:
    assert pins_host_memory(make_config(**_zero(2, offload_optimizer=CPU)))
    assert not pins_host_memory(make_config(**_zero(2, offload_optimizer={**CPU, "pin_memory": False})))


@pytest.mark.parametrize(
    ("keys", "phrase"),
    [
        (_zero(0, offload_optimizer=CPU), "stage 0 (set stage: 2)"),
        ({**BF16, **_zero(1, offload_optimizer=CPU)}, "stage 1 with precision bfloat16 (set stage: 2)"),
        (_zero(2, offload_optimizer=CPU, offload_param=CPU), "offload_param at zero_optimization.stage 2"),
        (_zero(3, offload_param=CPU), "offload_param without offload_optimizer"),
        (_zero(3, offload_optimizer={**CPU, "ratio": 0.5}), "offload_optimizer.ratio"),
        (_zero(2, offload_optimizer={**CPU, "pin_memory": "no"}), "offload_optimizer.pin_memory no"),
        (_zero(2, offload_optimizer={"device": "gpu"}), "offload_optimizer.device gpu (set cpu)"),
        ({**_zero(1, offload_optimizer=CPU), "pipe_parallel_size": 2}, "pipe_parallel_size above 1"),
        ({**_zero(2, offload_optimizer=CPU), "use_bnb_optimizer": True}, "use_bnb_optimizer"),
        (
            {**_zero(2, offload_optimizer=CPU), "optimizer": {"type": "Muon", "params": {"lr": 0.1}}},
            "optimizer.type muon",
        ),
    ],
)
def test_what_does_not_go_together_is_named(keys: dict[str, Any], phrase: str) -> None:
    problems = list_offload_problems(make_config(**keys))
    assert len(problems) == 1 and phrase in problems[0]


def test_the_host_s_adam_goes_with_gpus_where_states_are_offloaded() -> None:
    adam = {"optimizer": {"type": "CPU_torch_adam", "params": {"lr": 0.1}}, **BF16}
    require_hardware(make_config(**adam, **_zero(2, offload_optimizer=CPU)), make_gpu_cluster())
    with pytest.raises(ConfigError, match=r"offload_optimizer: \{device: cpu\}"):
        require_hardware(make_config(**adam, **_zero(2)), make_gpu_cluster())


def test_sums_in_bf16_are_told() -> None:
    keys = {**_zero(2, offload_optimizer=CPU), **BF16}
    assert any("add up in bf16" in note for note in make_config(gradient_accumulation_steps=2, **keys).notices)
    assert not any("add up in bf16" in note for note in make_config(**keys).notices)
