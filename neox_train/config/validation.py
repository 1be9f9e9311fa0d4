"""Turns pydantic's complaints into one sentence with file, line, key, value and what is wanted."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from pydantic import BaseModel, ValidationError

from neox_train.config.annotations import list_names
from neox_train.config.nearest import ask_nearest, find_nearest
from neox_train.config.reader import Place, find_place, show_value
from neox_train.config.sections.parallel import PARTITION_PATTERN
from neox_train.errors import ConfigError

_WANTED = {
    "int_type": "a whole number is wanted",
    "int_from_float": "a whole number is wanted",
    "float_type": "a number is wanted",
    "bool_type": "true or false is wanted",
    "string_type": "text is wanted, in quotes where it reads as a number or as true or false",
    "list_type": "a list is wanted",
    "dict_type": "a block of keys is wanted",
    "model_type": "a block of keys is wanted",
    "finite_number": "a finite number is wanted",
}
_PATTERNS = {
    PARTITION_PATTERN: "type:transformer (layers), uniform or parameters is wanted; after type: a regular expression "
    "of layer names may stand that contains transformer, as type:transformer|mlp"
}
_SHOWN = 8
"""Complaints that one refusal tells."""
_COMPARED = {
    "greater_than": ("gt", "more than"),
    "greater_than_equal": ("ge", "at least"),
    "less_than": ("lt", "less than"),
    "less_than_equal": ("le", "at most"),
}


def explain_validation(
    error: ValidationError, kind: type[BaseModel], places: Mapping[str, Place], where: str
) -> ConfigError:
    """``FILE, line N: optimizer.params.lr is '6e-4x'; a number is wanted``, with `` | `` between several complaints.

    ``kind`` is the record that was filled (its names are suggested for unknown keys), ``where`` names the file when
    the key has no line.
    """
    complaints = error.errors()
    missing = [join_path(entry["loc"]) for entry in complaints if entry["type"] == "missing"]
    others = [entry for entry in complaints if entry["type"] != "missing"]
    if not others:
        return ConfigError(f"{_say_place(missing[0], places, where)}{_say_missing(missing)}")
    # Of a value that may be one of several kinds each kind complains: the first does.
    by_path: dict[str, Any] = {}
    for complaint in others:
        by_path.setdefault(join_path(_leave_branches(complaint)), complaint)
    sentences = [_say_complaint(complaint, kind, places, where) for complaint in by_path.values()]
    more = f" | and {len(sentences) - _SHOWN} more" if len(sentences) > _SHOWN else ""
    return ConfigError(" | ".join(sentences[:_SHOWN]) + more)


def _say_complaint(complaint: Any, kind: type[BaseModel], places: Mapping[str, Place], where: str) -> str:
    parts = _leave_branches(complaint)
    path = join_path(parts)
    prefix = _say_place(path, places, where)
    if complaint["type"] == "extra_forbidden":
        return prefix + describe_unknown_key(path, list_names(kind, parts[:-1]))
    return f"{prefix}{path} is {show_value(complaint['input'])}; {_say_wanted(complaint)}"


def _leave_branches(complaint: Any) -> list[Any]:
    return [part for part in complaint["loc"] if not _names_branch(part)]


def describe_unknown_key(path: str, known: Iterable[str]) -> str:
    """``hiden_size is not a known key; did you mean hidden_size?``."""
    near = find_nearest(path.rsplit(".", 1)[-1], known)
    return f"{path} is not a known key; " + (f"did you mean {near}?" if near else "remove it or mend its name")


def join_path(parts: Iterable[Any]) -> str:
    """Dotted path of a value: ``optimizer.params.betas[1]``."""
    path = ""
    for part in parts:
        path += f"[{part}]" if isinstance(part, int) else f".{part}" if path else str(part)
    return path


def _names_branch(part: Any) -> bool:
    return part in ("int", "float", "str", "bool", "list", "dict") or (isinstance(part, str) and "[" in part)


def _say_place(path: str, places: Mapping[str, Place], where: str) -> str:
    place = find_place(places, path) or where
    return f"{place}: " if place else ""


def _say_missing(paths: list[str]) -> str:
    if len(paths) == 1:
        return f"{paths[0]} is missing; set it"
    return f"{', '.join(paths[:-1])} and {paths[-1]} are missing; set them, or name the file that does as well"


def _say_wanted(complaint: Any) -> str:
    kind, context = complaint["type"], complaint.get("ctx", {})
    if kind in _WANTED:
        return _WANTED[kind]
    if kind in _COMPARED:
        key, words = _COMPARED[kind]
        return f"{words} {context[key]} is wanted"
    if kind == "string_pattern_mismatch":
        return _PATTERNS.get(context["pattern"], f"text of the form {context['pattern']} is wanted")
    if kind == "too_short":
        return f"at least {context['min_length']} entry is wanted"
    if kind == "literal_error":
        known = re.findall(r"'([^']*)'", context["expected"])
        return f"one of {context['expected']} is wanted" + ask_nearest(str(complaint["input"]), known)
    return f"{complaint['msg'][:1].lower()}{complaint['msg'][1:]}"
