"""Small repairs before the schema looks: retired names, capitals in literals, text that YAML would read as numbers."""

from __future__ import annotations

import copy
import typing
from collections.abc import Mapping
from typing import Any

from neox_train.config.reader import Document, Place, show_value
from neox_train.config.retired import RETIRED
from neox_train.config.schema import NeoxKeys
from neox_train.errors import ConfigError


def replace_retired(document: Document) -> tuple[Document, list[str]]:
    """Read retired names as today's key where the value carries over, with a notice; refuse the others by name."""
    values, places, notices = dict(document.values), dict(document.places), []
    for name in [key for key in values if key in RETIRED]:
        retired, place = RETIRED[name], places.get(name, document.file)
        if retired.today is None:
            raise ConfigError(f"{place}: {name} {retired.sentence}")
        if retired.today in values and values[retired.today] != values[name]:
            raise ConfigError(
                f"{place}: {name} is {show_value(values[name])} and {retired.today} is "
                f"{show_value(values[retired.today])}; {name} {retired.sentence}, keep one of them"
            )
        values[retired.today] = values.pop(name)
        if name in places:
            places[retired.today] = places.pop(name)
        notices.append(f"{place}: {name} {retired.sentence}; write {retired.today} instead")
    return Document(document.file, values, places), notices


def normalise_literals(values: Mapping[str, Any]) -> dict[str, Any]:
    """A deep copy with literals in the spelling of the schema: GPT-NeoX accepts any capitals."""
    result = copy.deepcopy(dict(values))
    for name, field in NeoxKeys.model_fields.items():
        value = result.get(name)
        if isinstance(value, str):
            for literal in _literals(field.annotation):
                if isinstance(literal, str) and literal.lower() == value.lower():
                    result[name] = literal
    return result


def restore_text(document: Document) -> Document:
    """Names get the characters typed (an account ``1_000``, a group ``no``); a path has to be text.

    ``save: false`` is meant to switch saving off, and ``save: 5`` is a slip: neither is a folder's name.
    """
    values = dict(document.values)
    for name, field in NeoxKeys.model_fields.items():
        value = values.get(name)
        if value is None or field.annotation not in (str, str | None) or _is_path(name):
            continue
        place: Place | None = document.places.get(name)
        if place is not None and place.text is not None:
            values[name] = place.text
        elif type(value) is int:
            values[name] = str(value)
    return Document(document.file, values, document.places)


def _is_path(name: str) -> bool:
    return name in ("save", "load", "hostfile", "user_script") or name.endswith(("_path", "_file", "_dir"))


def _literals(annotation: Any) -> list[Any]:
    if typing.get_origin(annotation) is typing.Literal:
        return list(typing.get_args(annotation))
    return [literal for part in typing.get_args(annotation) for literal in _literals(part)]
