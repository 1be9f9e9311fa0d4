"""Writes small .bin/.idx pairs, byte by byte, apart from the exporter that they test."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from pathlib import Path

import numpy as np


def write_pair(prefix: Path, items: Sequence[Sequence[int]]) -> Path:
    """int32 items; returns the prefix."""
    sizes = np.array([len(item) for item in items], dtype="<i4")
    pointers = np.concatenate([[0], np.cumsum(sizes[:-1], dtype=np.int64) * 4]).astype("<i8")
    header = b"MMIDIDX\x00\x00" + struct.pack("<QBQQ", 1, 4, len(sizes), len(sizes) + 1)
    index = header + sizes.tobytes() + pointers.tobytes() + np.arange(len(sizes) + 1, dtype="<i8").tobytes()
    prefix.with_name(prefix.name + ".idx").write_bytes(index)
    prefix.with_name(prefix.name + ".bin").write_bytes(
        b"".join(np.array(item, dtype="<i4").tobytes() for item in items)
    )
    return prefix
