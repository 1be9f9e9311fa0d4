"""One entry a key: what ``config explain`` prints and docs/configuration.md lists."""

from __future__ import annotations

import types
import typing
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel
from pydantic.fields import FieldInfo
from typing_extensions import is_typeddict

from neox_train.config.annotations import list_options
from neox_train.config.keys import Status, read_remedy, read_status
from neox_train.config.reader import show_value
from neox_train.config.schema import SECTIONS, NeoxConfig, NeoxKeys
from neox_train.config.sections.derived import DerivedKeys
from neox_train.config.support import SUPPORTED

_STATUS = {
    "implemented": "in force",
    "harmless": "accepted, without effect here",
    "refused": "refused: known, not built; training accepts the default and values that switch nothing on",
    "derived": "computed from other keys",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class KeyEntry:
    """What one key is."""

    name: str
    type: str
    default: str
    meaning: str
    status: Status
    built: tuple[str, ...]
    """Values that training accepts, where it refuses others."""
    remedy: str
    """What to set instead of a refused key, or nothing."""

    @property
    def state(self) -> str:
        """The status in words, with the values that are built."""
        words = _STATUS[self.status]
        return f"{words}; built: {', '.join(self.built)}" if self.built else words


def read_entry(name: str) -> KeyEntry:
    """The entry of a key or derived value; KeyError for an unknown name."""
    return _build(name, {**NeoxConfig.model_fields, **NeoxKeys.model_fields}[name])


def list_sections() -> Iterator[tuple[str, list[KeyEntry]]]:
    """Heading and entries of every group, the derived values last."""
    groups: tuple[tuple[str, type[BaseModel]], ...] = (*SECTIONS, ("Derived values", DerivedKeys))
    for title, section in groups:
        yield title, [read_entry(name) for name in section.model_fields]


def name_type(annotation: Any) -> str:
    """A type as a person says it: ``int or null``, ``'fp16' or 'fp32'``, ``list of str``, ``block``."""
    return " or ".join(_name_option(option) for option in list_options(annotation))


def _build(name: str, field: FieldInfo) -> KeyEntry:
    default = "required" if field.is_required() else show_value(field.get_default(call_default_factory=True))
    return KeyEntry(
        name=name,
        type=name_type(field.annotation),
        default=default,
        meaning=field.description or "",
        status=read_status(field),
        built=tuple(str(value) for value in SUPPORTED.get(name, ())),
        remedy=read_remedy(field),
    )


def _name_option(option: Any) -> str:
    origin = typing.get_origin(option)
    if option in (None, types.NoneType):
        return "null"
    if origin is typing.Literal:
        return " or ".join(repr(value) for value in typing.get_args(option))
    if origin is list:
        (inner,) = typing.get_args(option)
        return "list" if inner is Any else f"list of {name_type(inner)}"
    if origin is dict or is_typeddict(option):
        return "block"
    return option.__name__ if isinstance(option, type) else str(option)
