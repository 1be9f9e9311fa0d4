"""Reading slices of a checkpoint's tensors, each file opened once."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open

from neox_train.checkpoint.fragments import FragmentIndex


class TensorReader:
    """The tensors of one checkpoint; use ``open_tensors``."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self._folder = folder
        self._stack = stack
        self._files: dict[str, Any] = {}
        self.index = FragmentIndex.read(folder)

    def read(self, file: str, key: str) -> torch.Tensor:
        """One whole tensor, on the CPU."""
        return self._open(file).get_tensor(key)

    def keys(self, file: str) -> list[str]:
        """Names of a file's tensors."""
        return list(self._open(file).keys())

    def fill(self, flat: torch.Tensor, state: str, name: str, start: int, length: int, *, shard: int = 0) -> None:
        """Copy ``length`` elements from ``start`` of a flattened parameter's state into the start of ``flat``."""
        for piece in self.index.find(state, name, start, length, shard=shard):
            source = self._open(piece.file).get_slice(piece.key)[piece.offset : piece.offset + piece.length]
            flat[piece.start : piece.start + piece.length].copy_(source)

    def _open(self, file: str) -> Any:
        if file not in self._files:
            opened = safe_open(str(self._folder / file), framework="pt")
            self._files[file] = self._stack.enter_context(opened)
        return self._files[file]


@contextmanager
def open_tensors(folder: Path) -> Iterator[TensorReader]:
    """Open a checkpoint's tensors for reading; nothing in them can execute."""
    with ExitStack() as stack:
        yield TensorReader(Path(folder), stack)
