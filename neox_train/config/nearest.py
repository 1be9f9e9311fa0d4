"""The known name that a mistyped one was meant to be."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

_ALIKE = 0.75
"""Least likeness (difflib's ratio) of a name that is suggested: a slip or two, not another word."""


def find_nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name most like ``name``, capitals aside; None where none is like it."""
    spelled = {each.lower(): each for each in known}
    near = difflib.get_close_matches(name.lower(), spelled, n=1, cutoff=_ALIKE)
    return spelled[near[0]] if near else None


def ask_nearest(name: str, known: Iterable[str]) -> str:
    """``; did you mean adam?``, or nothing where no known name is like ``name``."""
    near = find_nearest(name, known)
    return f"; did you mean {near}?" if near else ""
