"""Slurm's text for generic resources: which GPUs a node has.

The forms are ``gpu:8``, ``gpu:a100:8(S:0-1)``, ``gpu:h100:4(S:0,2),nvme:1``; commas and colons inside brackets name
sockets or device indices.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from neox_train.errors import ConfigError

UNTYPED = ""
_SLICE = re.compile(r"(?:.*_)?\d+g\.\d+gb.*")
_BRACKETS = re.compile(r"\([^()]*\)|\[[^\[\]]*\]")
_NOTHING = ("", "(null)", "N/A")


@dataclass(frozen=True)
class NodeGpus:
    """Whole GPUs of a node by type (``UNTYPED`` where Slurm has no name for them), and MIG slices by profile."""

    whole: dict[str, int] = field(default_factory=dict)
    slices: dict[str, int] = field(default_factory=dict)

    @property
    def count(self) -> int:
        """Whole GPUs of every type together."""
        return sum(self.whole.values())

    def describe(self) -> str:
        """For a sentence: ``4 h100``, ``1 turing and 3 ampere``, ``no GPU (28 MIG slices)``."""
        names = [f"{count} {kind}" if kind else f"{count} GPUs of no named type" for kind, count in self.whole.items()]
        slices = sum(self.slices.values())
        text = " and ".join(names) or "no GPU"
        return f"{text} ({slices} MIG slices)" if slices else text


def parse_gres(text: str) -> NodeGpus:
    """Read one node's resources; other resources than GPUs, shards too, are passed over.

    Raises ConfigError for a GPU entry whose count cannot be read.
    """
    whole: dict[str, int] = {}
    slices: dict[str, int] = {}
    for entry in _entries(text.strip()):
        name, *rest = entry.split(":")
        if name != "gpu":
            continue
        kind, count = _read_entry(rest, text)
        target = slices if _SLICE.fullmatch(kind) else whole
        target[kind] = target.get(kind, 0) + count
    return NodeGpus(whole, slices)


def _entries(text: str) -> Iterator[str]:
    if text not in _NOTHING:
        yield from (entry.strip() for entry in _BRACKETS.sub("", text).split(","))


def _read_entry(parts: list[str], text: str) -> tuple[str, int]:
    """Type and count of what follows ``gpu``; a missing count is one."""
    if not parts:
        return UNTYPED, 1
    if len(parts) == 1:
        return (UNTYPED, int(parts[0])) if parts[0].isdigit() else (parts[0], 1)
    if len(parts) == 2 and parts[0] and parts[1].isdigit():
        return parts[0], int(parts[1])
    raise ConfigError(f"the GPUs in `{text}` cannot be read; expected entries such as gpu:8 or gpu:h100:4(S:0-1)")
