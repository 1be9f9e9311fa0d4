from dataclasses import replace
from itertools import pairwise

import pytest

from neox_train.config.architecture import Architecture
from neox_train.config.parameters import list_parameters
from neox_train.config.stages import deal_stages, list_pipeline_layers, owner_of, split_evenly
from neox_train.errors import ConfigError
from tests.config.files import load_tiny


def architecture(layers: int) -> Architecture:
    return Architecture.from_config(load_tiny(num_layers=layers).with_vocab_size(1000))


@pytest.mark.parametrize(
    ("weights", "parts", "bounds"),
    [
        ([1, 1, 1, 1], 2, [0, 2, 4]),
        ([1, 1, 1, 1, 1], 2, [0, 3, 5]),
        ([0, 1, 1, 1, 1, 0, 0], 2, [0, 3, 7]),
        ([9, 1, 1, 1, 9], 3, [0, 1, 4, 5]),
        ([1, 1, 1], 3, [0, 1, 2, 3]),
    ],
)
def test_contiguous_parts_as_light_as_can_be(weights: list[int], parts: int, bounds: list[int]) -> None:
    assert split_evenly(weights, parts) == bounds


@pytest.mark.parametrize("method", ["type:transformer|mlp", "uniform", "parameters"])
@pytest.mark.parametrize("stages", [2, 3, 4])
def test_every_layer_has_one_stage(method: str, stages: int) -> None:
    dealt = deal_stages(architecture(6), stages, method)
    assert [place for stage in dealt for place in stage] == list(range(len(list_pipeline_layers(architecture(6)))))
    assert all(len(stage) for stage in dealt)


@pytest.mark.parametrize("stages", range(1, 10))
def test_stages_differ_by_one_layer_at_most_and_early_ones_have_it(stages: int) -> None:
    for layers in range(stages, 40):
        bounds = split_evenly([0, *[1] * layers, 0, 0], stages)
        held = [sum(0 < place <= layers for place in range(*part)) for part in pairwise(bounds)]
        assert sum(held) == layers and held == sorted(held, reverse=True)
        assert min(held) >= 1 and max(held) - min(held) <= 1


def test_a_stage_without_parameters_is_refused() -> None:
    bare = replace(architecture(2), norm="non_parametric_layernorm")
    with pytest.raises(ConfigError, match="uniform leaves stage 3 of 5 without a parameter; set"):
        deal_stages(bare, 5, "uniform")


def test_transformer_layers_are_dealt_evenly_and_the_ends_go_to_the_ends() -> None:
    first, second = deal_stages(architecture(6), 2, "type:transformer")
    assert (first, second) == (range(4), range(4, 9))


def test_every_parameter_has_an_owner_in_the_chain() -> None:
    chain = list_pipeline_layers(architecture(2))
    assert {owner_of(parameter.name) for parameter in list_parameters(architecture(2))} == set(chain)
