"""The ranks that share one model's matrices."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, kw_only=True, slots=True)
class TensorGroup:
    """This rank's place among its tensor-parallel peers."""

    rank: int
    size: int
    process_group: Any = None
    """torch's process group; None where the group has one rank."""
