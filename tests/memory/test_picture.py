"""The picture is written, whole, for every verdict."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from neox_train.memory.estimate import estimate_memory
from neox_train.memory.picture import draw_memory
from tests.memory.plans import make_cluster, make_config


@pytest.mark.parametrize(("memory_gib", "verdict"), [(2.0, "fits"), (0.2, "does_not_fit")])
def test_a_png_of_a_readable_size(memory_gib: float, verdict: str, tmp_path: Path) -> None:
    estimate = estimate_memory(make_config(), make_cluster(memory_gib_per_process=memory_gib))
    assert estimate.verdict == verdict
    path = tmp_path / "memory.png"
    draw_memory(estimate, path, title="serial")
    data = path.read_bytes()
    assert data.startswith(b"\x89PNG\r\n\x1a\n") and data.endswith(b"IEND\xaeB`\x82")
    width, height = struct.unpack(">II", data[16:24])
    assert width >= 900 and height >= 400
    assert list(tmp_path.iterdir()) == [path]
