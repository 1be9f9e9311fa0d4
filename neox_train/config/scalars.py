"""What a plain YAML scalar means: numbers as people write them, booleans as GPT-NeoX's loader reads them."""

from __future__ import annotations

import re
from typing import Any

_NULLS = {"", "~", "null", "Null", "NULL"}
_BOOLEANS = {
    word: truth
    for words, truth in ((("true", "yes", "on"), True), (("false", "no", "off"), False))
    for base in words
    for word in (base, base.capitalize(), base.upper())
}
_INTEGER = re.compile(r"[-+]?(?:0|[1-9][0-9_]*)\Z")
_HEXADECIMAL = re.compile(r"[-+]?0x[0-9a-fA-F_]+\Z")
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9][0-9_]*(?:\.[0-9_]*)?)(?:[eE][-+]?[0-9]+)?\Z")
_LEADING_ZERO = re.compile(r"[-+]?0[0-9_]+\Z")
_SPECIAL_FLOATS = {".inf": "inf", "+.inf": "inf", "-.inf": "-inf", ".nan": "nan"}


def resolve_scalar(text: str) -> Any:
    """Value of an unquoted scalar: None, bool, int, float, or the text itself.

    ``1e-8`` and ``6e-4`` are numbers (YAML 1.1 reads them as text). ``0123`` and ``24:10`` stay text: YAML 1.1 reads
    the first as octal and the second in base 60, which nobody means.
    """
    if text in _NULLS:
        return None
    if text in _BOOLEANS:
        return _BOOLEANS[text]
    if _INTEGER.match(text):
        return int(text.replace("_", ""))
    if _HEXADECIMAL.match(text):
        return int(text.replace("_", ""), 16)
    if text.lower() in _SPECIAL_FLOATS:
        return float(_SPECIAL_FLOATS[text.lower()])
    if _FLOAT.match(text) and not _LEADING_ZERO.match(text):
        return float(text.replace("_", ""))
    return text
