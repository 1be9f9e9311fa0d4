"""Kinds of layers that ``attention_config`` may name."""

from __future__ import annotations

from typing import Any

BUILT_LAYERS = ("global", "flash", "local")
OTHER_FAMILIES = frozenset({"mamba", "rwkv", "gmlp", "amlp"})
"""Whose layers are no transformer's, so that other keys of their files need not hold here."""


def find_layer_kinds(pattern: Any) -> frozenset[str]:
    """The texts anywhere in a pattern as it is written: ``[[["global", "mamba"], 6], ...]``."""
    if isinstance(pattern, str):
        return frozenset({pattern})
    if isinstance(pattern, list | tuple):
        return frozenset[str]().union(*map(find_layer_kinds, pattern))
    return frozenset()
