from __future__ import annotations

from pathlib import Path

import pytest

from neox_train.checkpoint.table import build_table, check_same_parameters, count_elements
from neox_train.config.architecture import Architecture
from neox_train.config.load import load_config
from neox_train.config.parameters import list_parameters
from neox_train.errors import CheckpointError


def load_architecture(cases: Path, **overrides: int) -> Architecture:
    config = load_config([cases / "base.yml", cases / "optimizer.yml"], overrides=overrides)
    return Architecture.from_config(config.with_vocab_size(251))


def test_the_table_is_the_models_without_padding(cases: Path) -> None:
    architecture = load_architecture(cases)
    assert architecture.padded_vocab_size > 251
    table = build_table(architecture)
    assert list(table) == [parameter.name for parameter in list_parameters(architecture)]
    assert table["output.weight"].shape == (251, 64)
    assert count_elements(table["output.weight"]) == 251 * 64


def test_padding_to_another_multiple_is_the_same_model(cases: Path) -> None:
    tables = [build_table(load_architecture(cases, make_vocab_size_divisible_by=by)) for by in (128, 512)]
    check_same_parameters(*tables, where="here")


@pytest.mark.parametrize("change", [{"hidden_size": 128}, {"num_layers": 3}, {"num_layers": 1}])
def test_another_model_is_refused_by_name(cases: Path, change: dict[str, int]) -> None:
    stored, wanted = build_table(load_architecture(cases)), build_table(load_architecture(cases, **change))
    with pytest.raises(CheckpointError, match="holds another model"):
        check_same_parameters(stored, wanted, where="step_00000030")
