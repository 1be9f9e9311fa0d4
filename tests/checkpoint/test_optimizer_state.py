from __future__ import annotations

import json

import pytest
import torch

from neox_train.checkpoint.optimizer_state import (
    build_scalar,
    describe_groups,
    is_fused,
    put_state,
    restore_groups,
    split_state,
)
from neox_train.training.muon import MuonWithAdamW
from neox_train.training.parameter_groups import STEPPED_BY_MUON


def step_once(optimizer_type: type[torch.optim.Optimizer], **options: float) -> tuple[torch.Tensor, dict, object]:
    weight = torch.nn.Parameter(torch.randn(1))
    optimizer = optimizer_type([weight], **options)
    weight.grad = torch.ones(1)
    optimizer.step()
    return weight, optimizer.state[weight], optimizer


def test_adam_splits_into_moments_and_a_step_count_even_for_one_element() -> None:
    weight, state, _ = step_once(torch.optim.AdamW, lr=0.1)
    split = split_state(weight, state)
    assert split.elementwise.keys() == {"exp_avg", "exp_avg_sq"}
    assert split.scalars.keys() == {"step"}
    assert split.opaque == {}


def test_a_scalar_reads_back_with_its_type_after_json() -> None:
    weight, state, _ = step_once(torch.optim.AdamW, lr=0.1)
    scalar = json.loads(json.dumps(split_state(weight, state).scalars["step"]))
    built = build_scalar(scalar, weight)
    assert built.dtype == torch.float32
    assert torch.equal(built, state["step"])
    assert build_scalar({"value": 7, "type": "int"}, weight) == 7


def test_a_fused_step_finds_its_count_on_the_device_though_a_cpu_saved_it() -> None:
    scalar = {"value": 3.0, "type": "tensor", "dtype": "float32", "on_device": False}
    weight = torch.nn.Parameter(torch.zeros(2, device="meta"))
    assert build_scalar(scalar, weight).device.type == "cpu"
    assert build_scalar(scalar, weight, is_fused=True).device.type == "meta"


def test_fused_is_what_the_group_of_the_tensor_says() -> None:
    by_muon, by_adam, others = (torch.nn.Parameter(torch.zeros(2, 2)) for _ in range(3))
    groups = [{"params": [by_muon], "weight_decay": 0.0, STEPPED_BY_MUON: True}, {"params": [by_adam]}]
    muon = MuonWithAdamW(groups, lr=0.1, fused_adamw=True)
    assert [is_fused(muon, tensor) for tensor in (by_muon, by_adam, others)] == [False, True, False]
    assert not is_fused(torch.optim.AdamW([by_adam]), by_adam)


def test_eight_bit_states_stay_together_as_they_are() -> None:
    weight = torch.zeros(4)
    state = {"step": 3, "state1": torch.zeros(4, dtype=torch.uint8), "absmax1": torch.ones(2), "unorm": torch.ones(4)}
    split = split_state(weight, state)
    assert split.opaque.keys() == {"state1", "absmax1", "unorm"}
    assert split.elementwise == {}
    assert split.scalars["step"]["value"] == 3


def test_a_value_without_a_place_is_an_error() -> None:
    with pytest.raises(TypeError, match="'history'"):
        split_state(torch.zeros(2), {"history": object()})


def test_a_tensor_of_the_same_shape_is_filled_in_place() -> None:
    old = torch.zeros(3)
    state = {"exp_avg": old}
    put_state(state, "exp_avg", torch.ones(3))
    assert state["exp_avg"] is old
    assert torch.equal(old, torch.ones(3))


def test_groups_get_back_what_the_optimizer_advances_and_keep_what_is_configured() -> None:
    optimizer = torch.optim.SGD([torch.zeros(1)], lr=0.1, momentum=0.9)
    optimizer.param_groups[0]["step"] = 5
    saved = json.loads(json.dumps(describe_groups(optimizer)))
    resumed = torch.optim.SGD([torch.zeros(1)], lr=0.5, momentum=0.8)
    resumed.param_groups[0]["step"] = 0
    restore_groups(resumed, saved)
    group = resumed.param_groups[0]
    assert (group["lr"], group["step"], group["momentum"]) == (0.1, 5, 0.8)
