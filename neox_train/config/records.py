"""Reads pipeline and cluster files into typed records: errors with file, line and key; text kept as it was typed."""

from __future__ import annotations

import typing
from collections.abc import Mapping
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from neox_train.config.annotations import list_options
from neox_train.config.reader import Place
from neox_train.config.validation import explain_validation


class Record(BaseModel):
    """A frozen, strict record: unknown keys and wrong types are errors."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True, allow_inf_nan=False)


R = TypeVar("R", bound=Record)


def build_record(kind: type[R], values: Mapping[str, Any], places: Mapping[str, Place], *, where: str) -> R:
    """Check ``values`` against a record; raises ConfigError in one sentence.

    A field that holds text gets the characters typed in the file, not YAML's reading of them: an account written
    ``0123456`` or ``1e3`` or ``no`` reaches Slurm unchanged.
    """
    restored = _restore_model(kind, dict(values), places, "")
    try:
        return kind.model_validate(restored)
    except ValidationError as error:
        raise explain_validation(error, kind, places, where) from None


def _restore_model(kind: type[BaseModel], values: dict[str, Any], places: Mapping[str, Place], path: str) -> Any:
    restored = {}
    for key, value in values.items():
        field = kind.model_fields.get(key)
        child = f"{path}.{key}" if path else str(key)
        restored[key] = value if field is None else _restore(field.annotation, value, places, child)
    return restored


def _restore(annotation: Any, value: Any, places: Mapping[str, Place], path: str) -> Any:
    options = list_options(annotation)
    if isinstance(value, dict):
        for option in options:
            if isinstance(option, type) and issubclass(option, BaseModel):
                return _restore_model(option, value, places, path)
            if typing.get_origin(option) is dict:
                inner = typing.get_args(option)[1]
                return {key: _restore(inner, item, places, f"{path}.{key}") for key, item in value.items()}
        return value
    if isinstance(value, list):
        for option in options:
            if typing.get_origin(option) is list:
                inner = typing.get_args(option)[0]
                return [_restore(inner, item, places, f"{path}[{index}]") for index, item in enumerate(value)]
        return value
    place = places.get(path)
    wants_text = any(option is str or typing.get_origin(option) is typing.Literal for option in options)
    wants_number = any(option in (int, float, bool) for option in options)
    if wants_text and not wants_number and value is not None and place is not None and place.text is not None:
        return place.text
    return value
