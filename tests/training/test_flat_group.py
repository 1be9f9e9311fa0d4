"""Setting up flat master weights: what each rank's buffers hold, and the live tensors meanwhile."""

from __future__ import annotations

import pytest
import torch

from neox_train.config.architecture import Architecture
from neox_train.memory.phases import list_phases
from neox_train.memory.plan import plan_rank
from neox_train.model.gpt_neox import GPTNeoX
from neox_train.training.flat_group import FlatGroup
from neox_train.training.parameter_groups import group_parameters
from tests.memory.live import LiveBytes
from tests.memory.plans import make_cluster, make_config


@pytest.mark.parametrize("ranks", [1, 2, 16])
def test_live_tensors_are_those_of_the_estimates_start(ranks: int) -> None:
    config = make_config(
        world_size=ranks, precision="bfloat16", flat_master_weights=True, zero_optimization={"stage": 1}
    )
    plan = plan_rank(config, make_cluster())
    assert plan.flat_masters
    architecture = Architecture.from_config(config)
    model = GPTNeoX(architecture)
    groups = group_parameters(model, architecture, config)
    assert len(groups) == 2
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter)
    before = {name: parameter.detach().clone() for name, parameter in model.named_parameters()}
    with torch.no_grad(), LiveBytes(model) as live:
        flats = [FlatGroup(group["params"], shards=ranks, shard=0) for group in groups]
        for flat in flats:
            flat.cast(torch.bfloat16)
        peak = live.peak
        for flat in flats:
            flat.allocate_gradients(torch.float32)
    start = next(phase for phase in list_phases(plan) if phase.name == "start")
    assert peak == start.total
    assert all(torch.equal(parameter, before[name].bfloat16()) for name, parameter in model.named_parameters())


def test_the_shards_masters_laid_together_are_the_parameters_and_padding() -> None:
    torch.manual_seed(1)
    parameters = [torch.nn.Parameter(torch.randn(shape)) for shape in [(7, 30), (5,), (300,), (1, 1)]]
    masters = [FlatGroup(parameters, shards=4, shard=shard).master for shard in range(4)]
    whole = torch.cat([master.detach() for master in masters])
    wanted = torch.cat([parameter.detach().reshape(-1) for parameter in parameters])
    assert len(whole) == 1024
    assert torch.equal(whole[: len(wanted)], wanted)
    assert not whole[len(wanted) :].any()
