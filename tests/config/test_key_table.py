from __future__ import annotations

from typing import Annotated, Any, Literal

import pytest
from pydantic import Field

from neox_train.config.key_table import list_sections, name_type, read_entry
from neox_train.config.schema import NeoxConfig, NeoxKeys
from neox_train.config.support import SUPPORTED


@pytest.mark.parametrize(
    ("annotation", "words"),
    [
        (int | None, "int or null"),
        (Literal["a", "b"], "'a' or 'b'"),
        (list[str] | None, "list of str or null"),
        (list[Any], "list"),
        (dict[str, Any], "block"),
        (Annotated[float, Field(gt=0)], "float"),
    ],
)
def test_types_are_said_in_words(annotation: Any, words: str) -> None:
    assert name_type(annotation) == words


def test_every_key_and_derived_value_has_one_entry() -> None:
    names = [entry.name for _, entries in list_sections() for entry in entries]
    assert set(names) == NeoxKeys.model_fields.keys() | NeoxConfig.model_fields.keys()


def test_no_entry_shows_an_address_or_a_module() -> None:
    for _, entries in list_sections():
        for entry in entries:
            assert " at 0x" not in entry.type and "neox_train" not in entry.type


@pytest.mark.parametrize("name", SUPPORTED)
def test_values_that_are_built_are_listed(name: str) -> None:
    assert read_entry(name).state.endswith("built: " + ", ".join(str(value) for value in SUPPORTED[name]))
