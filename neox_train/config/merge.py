"""Merges configuration files: the same key twice with different values is an error, and no file wins over another."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from neox_train.config.reader import Document, Place, parse_yaml, show_value
from neox_train.errors import ConfigError


def merge_documents(documents: Sequence[Document], overridden: Iterable[str] = ()) -> Document:
    """One document of all keys; raises ConfigError naming both files and lines where two disagree.

    Of a key that is ``overridden`` whole they may disagree: none of its values holds.
    """
    settled = {key.replace("-", "_") for key in overridden}
    values: dict[str, Any] = {}
    places: dict[str, Place] = {}
    for document in documents:
        for key, value in document.values.items():
            differs = key in values and (values[key] != value or type(values[key]) is not type(value))
            if differs and key not in settled:
                raise ConfigError(
                    f"{key} is {show_value(values[key])} in {places[key]}, and {show_value(value)} in "
                    f"{document.places[key]}; keep it in one file, or lay a value over both: --override {key}=..., or "
                    "overrides: of a pipeline's run"
                )
            values[key] = value
        places.update({path: place for path, place in document.places.items() if path not in places})
    return Document(" + ".join(document.file for document in documents), values, places)


def set_overrides(
    document: Document,
    overrides: Mapping[str, Any],
    *,
    source: str = "override",
    places: Mapping[str, Place] | None = None,
) -> Document:
    """Lay ``overrides`` on top: a dotted key (``optimizer.params.lr``) changes one value inside a block.

    ``places`` holds where each override was written, by its own dotted path; else sentences call the place ``source``.
    """
    values = copy.deepcopy(document.values)
    found = dict(document.places)
    for key, value in overrides.items():
        head, *inner = key.split(".")
        parts = [head.replace("-", "_"), *inner]
        target = values
        for part in parts[:-1]:
            if target.get(part) is None:
                target[part] = {}
            target = target[part]
            if not isinstance(target, dict):
                raise ConfigError(f"{source} {key}: {part} is not a block of keys; override {part} as a whole")
        target[parts[-1]] = copy.deepcopy(value)
        _move_places(found, ".".join(parts), key, source, places or {})
    return Document(document.file, values, found)


def parse_override(text: str) -> tuple[str, Any]:
    """``KEY=VALUE`` of the command line; the value is read as YAML."""
    key, equals, value = text.partition("=")
    if not equals or not key.strip():
        raise ConfigError(f"override '{text}' is not KEY=VALUE; write, for example, optimizer.params.lr=1e-3")
    document = parse_yaml(f"value: {value}", f"override {key.strip()}")
    return key.strip(), document.values["value"]


def _move_places(found: dict[str, Place], path: str, key: str, source: str, written: Mapping[str, Place]) -> None:
    for old in [name for name in found if _is_within(name, path)]:
        del found[old]
    found[path] = Place(f"{source} {key}", 0)
    for name, place in written.items():
        if _is_within(name, key):
            found[path + name[len(key) :]] = place


def _is_within(name: str, path: str) -> bool:
    return name == path or name.startswith((path + ".", path + "["))
