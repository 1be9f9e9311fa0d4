"""Whole numbers that people write with an exponent."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BeforeValidator


def _accept_whole(value: Any) -> Any:
    return int(value) if isinstance(value, float) and value.is_integer() else value


Whole = Annotated[int, BeforeValidator(_accept_whole)]
"""A whole number that may be written ``5e8``."""
