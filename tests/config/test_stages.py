import pytest

from neox_train.config.architecture import Architecture
from neox_train.config.parameters import list_parameters
from neox_train.config.stages import deal_stages, list_pipeline_layers, owner_of, split_evenly
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


def test_transformer_layers_are_dealt_evenly_and_the_ends_go_to_the_ends() -> None:
    first, second = deal_stages(architecture(6), 2, "type:transformer")
    assert (first, second) == (range(4), range(4, 9))


def test_every_parameter_has_an_owner_in_the_chain() -> None:
    chain = list_pipeline_layers(architecture(2))
    assert {owner_of(parameter.name) for parameter in list_parameters(architecture(2))} == set(chain)
