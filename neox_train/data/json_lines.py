"""JSON lines: one JSON object a line, lines ended by a line feed and nothing else, one document an object."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import orjson

from neox_train.data.documents import Document, Tally, count_utf8_bytes
from neox_train.data.open_source import open_source
from neox_train.data.sources import SourceFile

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_MAX_KEYS_SHOWN = 8


class _BadLineError(ValueError):
    """A line that holds no document; the message completes "FILE line N: "."""


def read_json_lines(file: SourceFile, text_key: str, tally: Tally) -> Iterator[Document]:
    """Yield the string under ``text_key`` of every line; lines are split on LF only, as U+2028 is text inside JSON.

    Blank lines are counted and passed over. Raises DataError naming file and line, or counts the line in ``tally``.
    """
    number = 0
    with open_source(file, tally) as stream:
        for number, line in enumerate(stream, start=1):
            if number == 1:
                line = line.removeprefix(_BYTE_ORDER_MARK)
            if not line.strip():
                tally.blank_lines += 1
                continue
            place = f"{file.name} line {number}"
            try:
                text = _parse(line, text_key)
                num_bytes = count_utf8_bytes(text)
            except UnicodeEncodeError as error:
                escape = f"\\u{ord(error.object[error.start]):04x}"
                tally.reject(
                    f"{place}: `{text_key}` holds the lone surrogate {escape}, which is no text; mend the line"
                )
            except _BadLineError as error:
                tally.reject(f"{place}: {error}")
            else:
                yield Document(text, num_bytes, place)
    if number == 0:
        tally.reject(f"{file.name} is empty; remove it from `source.files` or put documents into it")


def _parse(line: bytes, text_key: str) -> str:
    try:
        record = _load(line)
    except UnicodeDecodeError as error:
        raise _BadLineError(
            f"byte {error.start + 1} of the line is not UTF-8 (0x{line[error.start]:02x}); convert the file to UTF-8"
        ) from error
    except json.JSONDecodeError as error:
        raise _BadLineError(
            f"not valid JSON ({error.msg} at character {error.pos + 1}); one JSON object a line is wanted"
        ) from error
    except (ValueError, RecursionError) as error:
        raise _BadLineError(f"the JSON cannot be read ({error}); one JSON object a line is wanted") from error
    if not isinstance(record, dict):
        raise _BadLineError(f"the line holds {_kind(record)}; one JSON object a line is wanted")
    if text_key not in record:
        raise _BadLineError(
            f"there is no key `{text_key}`, the object has {_list_keys(record)}; "
            "set `source.text_key` to the key of the text"
        )
    text = record[text_key]
    if not isinstance(text, str):
        raise _BadLineError(f"`{text_key}` holds {_kind(text)}; a string is wanted")
    return text


def _load(line: bytes) -> Any:
    """The line's value by orjson, which is fast; what that refuses by the standard library, which explains."""
    try:
        return orjson.loads(line)
    except orjson.JSONDecodeError:
        return json.loads(line.decode("utf-8"))


def _list_keys(record: dict[str, object]) -> str:
    keys = [f"`{key}`" for key in record]
    shown = ", ".join(keys[:_MAX_KEYS_SHOWN]) + (", ..." if len(keys) > _MAX_KEYS_SHOWN else "")
    return shown or "no keys"


def _kind(value: object) -> str:
    if value is None:
        return "null"
    names = {bool: "true or false", int: "a number", float: "a number", str: "a string", list: "an array"}
    return names.get(type(value), "an object")
