"""One JSON object and the texts in it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import orjson

_MAX_KEYS_SHOWN = 8


class BadLineError(ValueError):
    """A line that holds no document; the message completes "FILE line N: "."""


def find_text(line: bytes, text_key: str) -> str | None:
    """The string under one key, or None for a line that ``find_texts`` must read or explain."""
    try:
        record = orjson.loads(line)
        text = record[text_key]
    except (orjson.JSONDecodeError, KeyError, TypeError):
        return None
    return text if type(text) is str else None


def find_texts(line: bytes, text_keys: Sequence[str]) -> list[str]:
    """The string under each key; raises BadLineError where one is missing or no string."""
    record = load_json(line)
    if not isinstance(record, dict):
        raise BadLineError(f"the line holds {_kind(record)}; one JSON object a line is wanted")
    texts = []
    for key in text_keys:
        if key not in record:
            raise BadLineError(
                f"there is no key `{key}`, the object has {_list_keys(record)}; "
                "set `source.text_key` to the key of the text"
            )
        text = record[key]
        if not isinstance(text, str):
            raise BadLineError(f"`{key}` holds {_kind(text)}; a string is wanted")
        texts.append(text)
    return texts


def load_json(line: bytes) -> Any:
    """The value by orjson, which is fast; what that refuses by the standard library, which explains in BadLineError."""
    try:
        return orjson.loads(line)
    except orjson.JSONDecodeError:
        pass
    try:
        return json.loads(line.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise BadLineError(
            f"byte {error.start + 1} of the line is not UTF-8 (0x{line[error.start]:02x}); convert the file to UTF-8"
        ) from error
    except json.JSONDecodeError as error:
        raise BadLineError(
            f"not valid JSON ({error.msg} at character {error.pos + 1}); one JSON object a line is wanted"
        ) from error
    except (ValueError, RecursionError) as error:
        raise BadLineError(f"the JSON cannot be read ({error}); one JSON object a line is wanted") from error


def _list_keys(record: dict[str, object]) -> str:
    keys = [f"`{key}`" for key in record]
    shown = ", ".join(keys[:_MAX_KEYS_SHOWN]) + (", ..." if len(keys) > _MAX_KEYS_SHOWN else "")
    return shown or "no keys"


def _kind(value: object) -> str:
    if value is None:
        return "null"
    names = {bool: "true or false", int: "a number", float: "a number", str: "a string", list: "an array"}
    return names.get(type(value), "an object")
