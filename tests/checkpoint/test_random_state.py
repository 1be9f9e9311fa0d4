from __future__ import annotations

import json
import random
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import load_file

from neox_train.checkpoint.random_state import capture_random_state, is_random_state, restore_random_state
from neox_train.checkpoint.tensor_file import write_tensors


def draw() -> list[float]:
    return [
        float(torch.randn(())),
        float(np.random.standard_normal()),
        random.gauss(0, 1),
        random.random(),
        float(torch.rand(())),
    ]


def test_streams_go_on_after_a_trip_through_files(tmp_path: Path) -> None:
    # One draw first: both numpy and python then hold half of a pair of normal numbers.
    draw()
    tensors, values = capture_random_state()
    write_tensors(tmp_path / "x.safetensors", tensors)
    text = json.dumps(values)
    wanted = [draw() for _ in range(3)]
    restore_random_state(load_file(tmp_path / "x.safetensors"), json.loads(text))
    assert [draw() for _ in range(3)] == wanted


def test_the_keys_are_told_from_other_tensors() -> None:
    tensors, _ = capture_random_state()
    assert all(is_random_state(key) for key in tensors)
    assert not is_random_state("master:w:0of1:0")
