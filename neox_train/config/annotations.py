"""Looks through type annotations of records: their options, and the key names a place in a file may hold."""

from __future__ import annotations

import types
import typing
from collections.abc import Sequence
from typing import Any

from pydantic import BaseModel
from typing_extensions import is_typeddict


def list_options(annotation: Any) -> tuple[Any, ...]:
    """Members of a union (``int | None``), or the annotation alone; ``Annotated`` is looked through."""
    origin = typing.get_origin(annotation)
    if origin in (typing.Union, types.UnionType):
        return tuple(option for part in typing.get_args(annotation) for option in list_options(part))
    if origin is typing.Annotated:
        return list_options(typing.get_args(annotation)[0])
    return (annotation,)


def list_names(kind: Any, path: Sequence[str | int]) -> list[str]:
    """Key names known in the block that ``path`` leads to, from a record downwards; empty where any name goes."""
    for part in path:
        kind = _step(kind, part)
    return list(_fields(kind))


def find_annotation(kind: Any, path: Sequence[str | int]) -> Any:
    """The type of the value that ``path`` leads to, from a record downwards; None where no such name is known."""
    for part in path[:-1]:
        kind = _step(kind, part)
    return _fields(kind).get(str(path[-1]))


def _step(kind: Any, part: str | int) -> Any:
    if typing.get_origin(kind) is dict:
        return _pick(typing.get_args(kind)[1])
    if typing.get_origin(kind) is list:
        return _pick(typing.get_args(kind)[0])
    return _pick(_fields(kind).get(str(part)))


def _pick(annotation: Any) -> Any:
    """The option that can hold keys."""
    for option in list_options(annotation):
        if _fields(option) or typing.get_origin(option) in (dict, list):
            return option
    return None


def _fields(kind: Any) -> dict[str, Any]:
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        return {name: field.annotation for name, field in kind.model_fields.items()}
    return typing.get_type_hints(kind, include_extras=True) if is_typeddict(kind) else {}
