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


def write_wrong_labels(folder: Path) -> dict[str, list[str]]:
    """Keys of a training on token files whose labels are other tokens, which only who reads the tokens can tell."""
    tokens = write_pair(folder / "tokens", [[1 + place % 7 for place in range(400)] for _ in range(40)])
    labels = write_pair(folder / "labels", [[2 + place % 7 for place in range(400)] for _ in range(40)])
    return {"train_data_paths": [str(tokens)], "train_label_data_paths": [str(labels)]}
