"""Merges configuration files left to right: the same key twice with different values is an error, never a winner."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any

from neox_train.config.reader import Document, Place, parse_yaml, show_value
from neox_train.errors import ConfigError

OVERRIDE_FILE = "override"


def merge_documents(documents: Sequence[Document]) -> Document:
    """One document of all keys; raises ConfigError naming both files and lines where two disagree."""
    values: dict[str, Any] = {}
    places: dict[str, Place] = {}
    for document in documents:
        for key, value in document.values.items():
            if key in values and values[key] != value:
                raise ConfigError(
                    f"{key} is {show_value(values[key])} in {places[key]} and {show_value(value)} in "
                    f"{document.places[key]}; keep it in one file"
                )
            values[key] = value
        places.update({path: place for path, place in document.places.items() if path not in places})
    return Document(" + ".join(document.file for document in documents), values, places)


def set_overrides(document: Document, overrides: Mapping[str, Any], *, source: str = OVERRIDE_FILE) -> Document:
    """Lay ``overrides`` on top: a dotted key (``optimizer.params.lr``) changes one value inside a block."""
    values = copy.deepcopy(document.values)
    places = dict(document.places)
    for key, value in overrides.items():
        head, *inner = key.split(".")
        path = [head.replace("-", "_"), *inner]
        target = values
        for part in path[:-1]:
            target = target.setdefault(part, {})
            if not isinstance(target, dict):
                raise ConfigError(f"override {key}: {part} is not a block of keys; override {part} as a whole")
        target[path[-1]] = copy.deepcopy(value)
        dotted = ".".join(path)
        for old in [name for name in places if name == dotted or name.startswith((dotted + ".", dotted + "["))]:
            del places[old]
    return Document(document.file, values, places)


def parse_override(text: str) -> tuple[str, Any]:
    """``KEY=VALUE`` of the command line; the value is read as YAML."""
    key, equals, value = text.partition("=")
    if not equals or not key.strip():
        raise ConfigError(f"override '{text}' is not KEY=VALUE; write, for example, optimizer.params.lr=1e-3")
    document = parse_yaml(f"value: {value}", f"--override {key.strip()}")
    return key.strip(), document.values["value"]
