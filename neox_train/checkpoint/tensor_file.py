"""Writing one safetensors file as a stream: one tensor in host memory at a time, hashed on its way to the disk.

The format is eight bytes of header length, a JSON header, then the tensors' bytes without gaps (huggingface.co,
safetensors). Files are read back with the safetensors library.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from itertools import chain
from pathlib import Path
from typing import Any

import torch

from neox_train.checkpoint.manifest import FileRecord

_DTYPES = {
    torch.float64: "F64",
    torch.float32: "F32",
    torch.float16: "F16",
    torch.bfloat16: "BF16",
    torch.int64: "I64",
    torch.int32: "I32",
    torch.int16: "I16",
    torch.int8: "I8",
    torch.uint8: "U8",
    torch.bool: "BOOL",
}


def write_tensors(
    path: Path, tensors: Mapping[str, torch.Tensor], *, metadata: Mapping[str, str] | None = None
) -> FileRecord:
    """Write and fsync the tensors, and return the file's size and SHA-256.

    Wide types come first, so that every tensor starts at a multiple of its element size. ``metadata`` is text that
    other programs look for in the header.
    """
    order = sorted(tensors, key=lambda name: (-tensors[name].element_size(), name))
    header = _build_header([(name, tensors[name]) for name in order], metadata)
    digest, size = hashlib.sha256(), 0
    with open(path, "wb") as stream:
        payloads: Iterator[bytes | memoryview] = chain([header], (_tensor_bytes(tensors[name]) for name in order))
        for payload in payloads:
            stream.write(payload)
            digest.update(payload)
            size += len(payload)
        stream.flush()
        os.fsync(stream.fileno())
    return FileRecord(bytes=size, sha256=digest.hexdigest())


def count_bytes(tensors: Mapping[str, torch.Tensor]) -> int:
    """Bytes ``write_tensors`` will write."""
    payload = sum(tensor.numel() * tensor.element_size() for tensor in tensors.values())
    return payload + len(_build_header(list(tensors.items())))


def _build_header(tensors: list[tuple[str, torch.Tensor]], metadata: Mapping[str, str] | None = None) -> bytes:
    entries: dict[str, Any] = {"__metadata__": dict(metadata)} if metadata else {}
    offset = 0
    for name, tensor in tensors:
        end = offset + tensor.numel() * tensor.element_size()
        entries[name] = {"dtype": _DTYPES[tensor.dtype], "shape": list(tensor.shape), "data_offsets": [offset, end]}
        offset = end
    text = json.dumps(entries, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text


def _tensor_bytes(tensor: torch.Tensor) -> memoryview:
    flat = tensor.detach().to("cpu").contiguous().reshape(-1)
    return memoryview(flat.view(torch.uint8).numpy())
