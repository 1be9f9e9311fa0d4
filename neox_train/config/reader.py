"""Reads one YAML file into plain values that remember the line and the text they were written with."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from neox_train.config.scalars import resolve_scalar
from neox_train.errors import ConfigError

_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_TAG_PREFIX = "tag:yaml.org,2002:"
_PLAIN_TAGS = ("str", "int", "float", "bool", "null", "timestamp", "value", "merge")
_MERGE_KEY = "<<"
_QUOTES = ("'", '"', "|", ">")
_FOLDED_BLOCKS = (
    "activation_checkpointing",
    "bf16",
    "data_types",
    "fp16",
    "optimizer",
    "sparsity_config",
    "zero_optimization",
)
"""Blocks whose keys have underscores alone, so that hyphens can be meant for nothing else."""
_MAX_VALUES = 200_000
"""More come of aliases that repeat each other, not of a configuration."""
_INTEGER_BITS = 63
_NOT_ZERO = re.compile(r"[-+.0_]*[1-9]")


@dataclass(frozen=True, slots=True)
class Place:
    """Where a value was written: file, line (from 1; 0 on the command line), and the text of a scalar."""

    file: str
    line: int
    text: str | None = None

    def __str__(self) -> str:
        return f"{self.file}, line {self.line}" if self.line else self.file


@dataclass(frozen=True, slots=True)
class Document:
    """One file's mapping, with the place of every value under its dotted path (``optimizer.params.betas[1]``)."""

    file: str
    values: dict[str, Any]
    places: dict[str, Place] = field(default_factory=dict)


def read_yaml(path: Path | str, *, fold_hyphens: bool = False) -> Document:
    """Read a YAML (or JSON) file whose top level is a mapping; raises ConfigError in one sentence.

    ``fold_hyphens`` turns hyphens in keys into underscores: at the top level as GPT-NeoX does, and in the blocks whose
    keys are known.
    """
    name = str(path)
    return parse_yaml(_read_text(Path(path), name), name, fold_hyphens=fold_hyphens)


def parse_yaml(text: str, name: str, *, fold_hyphens: bool = False) -> Document:
    """Read YAML text that sentences call ``name``."""
    try:
        node = _compose(name, text)
        return _read_top(name, node, _Reader(name, fold_hyphens))
    except RecursionError:
        raise ConfigError(f"{name} is nested too deeply to be read; write its values out") from None


def _read_top(name: str, node: Any, reader: _Reader) -> Document:
    if not isinstance(node, yaml.MappingNode):
        raise ConfigError(
            f"{name} holds {_name_node(node)} at its top level; keys with values (`key: value`) are wanted"
        )
    return Document(name, reader.read_mapping(node, ""), reader.places)


def _read_text(path: Path, name: str) -> str:
    try:
        raw = path.read_bytes()
    except FileNotFoundError:
        raise ConfigError(f"{name} does not exist; give the path of a configuration file") from None
    except IsADirectoryError:
        raise ConfigError(f"{name} is a folder; give the path of a configuration file") from None
    except OSError as error:
        raise ConfigError(f"{name} cannot be read ({error.strerror}); check its permissions") from None
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise ConfigError(f"{name}, line {line}: the file is not UTF-8 text; save it as UTF-8") from None


def _compose(name: str, text: str) -> Any:
    try:
        node = yaml.compose(text, Loader=_Loader)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
        place = f"{name}, line {mark.line + 1}" if mark else name
        problem = getattr(error, "problem", None) or getattr(error, "reason", None) or "unreadable"
        if mark and _is_indented_by_tab(text, mark.line):
            raise ConfigError(f"{place}: not valid YAML (a tab indents the line); indent with spaces") from None
        raise ConfigError(f"{place}: not valid YAML ({problem}); mend the line") from None
    if node is None:
        raise ConfigError(f"{name} is empty; keys with values (`key: value`) are wanted")
    return node


def _is_indented_by_tab(text: str, line: int) -> bool:
    lines = text.splitlines()
    return line < len(lines) and "\t" in lines[line][: len(lines[line]) - len(lines[line].lstrip())]


def _name_node(node: Any) -> str:
    return "a list" if isinstance(node, yaml.SequenceNode) else f"only the text '{node.value}'"


class _Reader:
    """Turns composed nodes into values and notes their places."""

    def __init__(self, file: str, fold_hyphens: bool) -> None:
        self.file = file
        self.fold_hyphens = fold_hyphens
        self.places: dict[str, Place] = {}
        self._open: list[int] = []
        self._values = 0

    def read_mapping(self, node: Any, path: str) -> dict[str, Any]:
        values: dict[str, Any] = {}
        for key_node, value_node in node.value:
            key = self._read_key(key_node, path)
            child = f"{path}.{key}" if path else key
            earlier = self.places.get(child) if key in values else None
            line = key_node.start_mark.line + 1
            value = self.read_value(value_node, child, line)
            if earlier is not None and (values[key] != value or type(values[key]) is not type(value)):
                raise ConfigError(
                    f"{self.file}: {child} is set twice, to {show_value(values[key])} on line {earlier.line} and to "
                    f"{show_value(value)} on line {line}; keep one of them"
                )
            values[key] = value
        return values

    def read_value(self, node: Any, path: str, line: int) -> Any:
        self._values += 1
        if self._values > _MAX_VALUES:
            raise ConfigError(
                f"{self.file}, line {line}: {path} is beyond {_MAX_VALUES:,} values; write aliases (*name) out"
            )
        if id(node) in self._open:
            raise ConfigError(
                f"{self.file}, line {line}: {path} is an alias (*name) of a block around it; write the value out"
            )
        self._open.append(id(node))
        try:
            return self._read_node(node, path, line)
        finally:
            self._open.pop()

    def _read_node(self, node: Any, path: str, line: int) -> Any:
        text = node.value if isinstance(node, yaml.ScalarNode) else None
        place = Place(self.file, line, text)
        if isinstance(node, yaml.MappingNode):
            value: Any = self.read_mapping(node, path)
        elif isinstance(node, yaml.SequenceNode):
            value = [
                self.read_value(item, f"{path}[{index}]", item.start_mark.line + 1)
                for index, item in enumerate(node.value)
            ]
        else:
            value = self._read_scalar(node, path, line)
        self.places[path] = place
        return value

    def _read_scalar(self, node: Any, path: str, line: int) -> Any:
        if node.style in _QUOTES:
            return node.value
        if node.tag.removeprefix(_TAG_PREFIX) not in _PLAIN_TAGS:
            raise ConfigError(f"{self.file}, line {line}: {path} carries the YAML tag {node.tag}; write a plain value")
        try:
            value = resolve_scalar(node.value)
        except ValueError:  # Python reads no more than some thousand digits.
            value = 1 << _INTEGER_BITS
        if isinstance(value, float) and value == 0 and _NOT_ZERO.match(node.value):
            raise ConfigError(
                f"{self.file}, line {line}: {path} is {shorten(node.value)}, which a 64-bit number holds as 0; write "
                "0, or a number from 1e-307 on"
            )
        if isinstance(value, int) and value.bit_length() > _INTEGER_BITS:
            raise ConfigError(
                f"{self.file}, line {line}: {path} is {shorten(node.value)}, which takes more than 64 bits; "
                "write a smaller number"
            )
        return value

    def _read_key(self, node: Any, path: str) -> str:
        line = node.start_mark.line + 1
        if not isinstance(node, yaml.ScalarNode):
            raise ConfigError(f"{self.file}, line {line}: a key is a list or a mapping; plain text is wanted")
        if node.value == _MERGE_KEY and node.style not in _QUOTES:
            raise ConfigError(f"{self.file}, line {line}: YAML merge keys (<<) are not read; write the keys out")
        folds = self.fold_hyphens and (not path or path.partition(".")[0] in _FOLDED_BLOCKS)
        return str(node.value.replace("-", "_")) if folds else str(node.value)


def find_place(places: Mapping[str, Place], path: str) -> Place | None:
    """Place of the value at a dotted path, else of the nearest block around it that is written."""
    while path and path not in places:
        path = path[: max(path.rfind("."), path.rfind("["), 0)]
    return places.get(path)


def show_value(value: Any) -> str:
    """A value as a sentence shows it: numbers bare, text in quotes, blocks shortened."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if value is None:
        return "null"
    return shorten(repr(value))


def shorten(text: str) -> str:
    """At most 60 characters of a text."""
    return text if len(text) <= 60 else text[:57] + "..."
