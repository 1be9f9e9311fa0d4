from dataclasses import replace

import pytest
import torch
from torch import nn

from neox_train.config.architecture import Architecture
from neox_train.config.layout import DatasetFolder, RunFolder
from neox_train.config.schema import NeoxConfig
from neox_train.model.gpt_neox import GPTNeoX
from neox_train.training.flat_group import FlatGroup
from neox_train.training.parameter_groups import STATE_BITS, STEPPED_BY_MUON, group_parameters
from tests.training.synthetic import resolve


@pytest.fixture
def config(dataset: DatasetFolder) -> NeoxConfig:
    return resolve(dataset, RunFolder("unused"), weight_decay=0.1)


@pytest.fixture
def architecture(config: NeoxConfig) -> Architecture:
    return Architecture.from_config(config)


def names(model: nn.Module, group: dict[str, object]) -> set[str]:
    members = {id(parameter) for parameter in group["params"]}  # type: ignore[attr-defined]
    return {name for name, parameter in model.named_parameters() if id(parameter) in members}


def test_matrices_and_embeddings_decay_and_biases_and_norms_do_not(
    architecture: Architecture, config: NeoxConfig
) -> None:
    model = GPTNeoX(architecture)
    decays, rest = group_parameters(model, architecture, config)
    assert (decays["weight_decay"], rest["weight_decay"]) == (0.1, 0.0)
    assert {"word_embeddings.weight", "output.weight", "layers.0.mlp.linear1.weight"} <= names(model, decays)
    assert all(name.endswith(".bias") or "norm" in name for name in names(model, rest))
    assert all(parameter.ndim == 2 for parameter in decays["params"])
    assert len(names(model, decays) | names(model, rest)) == len(list(model.parameters()))


def test_a_tied_embedding_is_stepped_once(architecture: Architecture, config: NeoxConfig) -> None:
    tied = replace(architecture, tied_embeddings=True)
    groups = group_parameters(GPTNeoX(tied), tied, config)
    stepped = [id(parameter) for group in groups for parameter in group["params"]]
    assert len(stepped) == len(set(stepped))


def test_without_decay_there_is_one_group(architecture: Architecture, config: NeoxConfig) -> None:
    (group,) = group_parameters(GPTNeoX(architecture), architecture, config.model_copy(update={"weight_decay": 0.0}))
    assert group["weight_decay"] == 0.0


def test_a_model_of_another_table_is_a_fault(architecture: Architecture, config: NeoxConfig) -> None:
    with pytest.raises(ValueError, match="canonical table"):
        group_parameters(nn.Linear(2, 2), architecture, config)


def test_norms_stay_aligned_in_a_flat_buffer_beside_biases_of_odd_sizes(dataset: DatasetFolder) -> None:
    odd = resolve(
        dataset, RunFolder("unused"), norm="rmsnorm", activation="swiglu", hidden_size=64, intermediate_size=90
    )
    architecture = Architecture.from_config(odd)
    model = GPTNeoX(architecture)
    widths = {parameter.numel() for name, parameter in model.named_parameters() if name.endswith(".bias")}
    assert any(width % 8 for width in widths)
    for group in group_parameters(model, architecture, odd):
        FlatGroup(group["params"], shards=1, shard=0).cast(torch.bfloat16)
    norms = [parameter for name, parameter in model.named_parameters() if "norm" in name]
    assert norms and all(parameter.storage_offset() % 64 == 0 for parameter in norms)


def test_groups_of_8_bit_states_are_no_larger_than_their_kernels_count(
    architecture: Architecture, config: NeoxConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = GPTNeoX(architecture)
    eight_bit = config.model_copy(update={"use_bnb_optimizer": True})
    whole = group_parameters(model, architecture, eight_bit)
    limit = max(parameter.numel() for parameter in model.parameters())
    monkeypatch.setattr("neox_train.config.optimizer_groups.EIGHT_BIT_GROUP_ELEMENTS", limit)
    cut = group_parameters(model, architecture, eight_bit)
    assert len(cut) > len(whole)
    assert all(sum(parameter.numel() for parameter in group["params"]) <= limit for group in cut)
    in_order = [[id(parameter) for group in groups for parameter in group["params"]] for groups in (whole, cut)]
    assert in_order[0] == in_order[1]


def test_embeddings_beside_8_bit_states_are_a_group_of_32_bits(architecture: Architecture, config: NeoxConfig) -> None:
    model = GPTNeoX(architecture)
    groups = group_parameters(model, architecture, config.model_copy(update={"use_bnb_optimizer": True}))
    assert [group.get(STATE_BITS) for group in groups] == [32, None, None]
    assert names(model, groups[0]) == {"word_embeddings.weight"}


def test_muon_steps_the_layers_matrices_alone(architecture: Architecture, config: NeoxConfig) -> None:
    model = GPTNeoX(architecture)
    groups = group_parameters(model, architecture, config.model_copy(update={"optimizer_type": "muon"}))
    assert [group.get(STEPPED_BY_MUON) for group in groups] == [True, None, None]
    assert names(model, groups[1]) == {"word_embeddings.weight", "output.weight"}
    assert {parameter.ndim for parameter in groups[0]["params"]} == {2}
