"""What DeepSpeed is told of gathering, by device."""

from __future__ import annotations

import torch

from neox_train.training.sharded_gather import gather_one_by_one


def test_zero_3_over_gloo_waits_for_every_weight() -> None:
    settings = {"zero_optimization": {"stage": 3, "reduce_bucket_size": 5}}
    told = gather_one_by_one(settings, torch.device("cpu"))["zero_optimization"]
    assert told == {"stage": 3, "reduce_bucket_size": 5, "stage3_allgather_sequential": True}
    assert gather_one_by_one(settings, torch.device("cuda")) == settings
    other = {"zero_optimization": {"stage": 2}}
    assert gather_one_by_one(other, torch.device("cpu")) == other
