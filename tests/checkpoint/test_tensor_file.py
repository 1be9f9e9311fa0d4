from __future__ import annotations

from pathlib import Path

import torch
from safetensors.torch import load_file

from neox_train.checkpoint.tensor_file import count_bytes, write_tensors
from neox_train.files import sha256_file

TENSORS = {
    "a": torch.arange(5, dtype=torch.uint8),
    "b": torch.tensor([1.5, -0.0, float("nan")]),
    "c": torch.randn(3, 4).to(torch.bfloat16),
    "d": torch.arange(6, dtype=torch.int64).reshape(2, 3).t(),
    "empty": torch.empty(0),
    "flags": torch.tensor([True, False]),
}


def test_the_safetensors_library_reads_what_was_written(tmp_path: Path) -> None:
    write_tensors(tmp_path / "x.safetensors", TENSORS)
    loaded = load_file(tmp_path / "x.safetensors")
    assert loaded.keys() == TENSORS.keys()
    for name, tensor in TENSORS.items():
        assert loaded[name].dtype == tensor.dtype
        assert loaded[name].shape == tensor.shape
        wanted = tensor.contiguous().reshape(-1).view(torch.uint8)
        assert torch.equal(loaded[name].reshape(-1).view(torch.uint8), wanted)


def test_the_record_is_that_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "x.safetensors"
    record = write_tensors(path, TENSORS)
    assert record.bytes == path.stat().st_size == count_bytes(TENSORS)
    assert record.sha256 == sha256_file(path)


def test_every_tensor_starts_at_a_multiple_of_its_element_size(tmp_path: Path) -> None:
    path = tmp_path / "x.safetensors"
    write_tensors(path, TENSORS)
    data = path.read_bytes()
    start = 8 + int.from_bytes(data[:8], "little")
    assert start % 8 == 0
    marker = data.find(torch.arange(6).reshape(2, 3).t().contiguous().numpy().tobytes(), start)
    assert marker == start
