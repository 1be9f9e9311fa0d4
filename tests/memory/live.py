"""Counts the tensors that are alive while operations run."""

from __future__ import annotations

from typing import Any

import torch
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode


class LiveBytes(TorchDispatchMode):
    """Bytes of the tensors alive after each operation: those of a model, and those made since."""

    def __init__(self, model: torch.nn.Module) -> None:
        super().__init__()
        self._seen: dict[int, tuple[StorageWeakRef, int]] = {}
        self.peak = 0
        for parameter in model.parameters():
            self._add(parameter)

    def _add(self, tensor: torch.Tensor) -> None:
        storage = tensor.untyped_storage()
        self._seen[storage._cdata] = (StorageWeakRef(storage), storage.nbytes())

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        # An address may be given to a later storage: what has ended is forgotten before the new one is added.
        self._forget()
        for tensor in out if isinstance(out, tuple | list) else (out,):
            if isinstance(tensor, torch.Tensor):
                self._add(tensor)
        self.peak = max(self.peak, self.now)
        return out

    @property
    def now(self) -> int:
        """Bytes alive now."""
        self._forget()
        return sum(size for _, size in self._seen.values())

    def _forget(self) -> None:
        self._seen = {key: (ref, size) for key, (ref, size) in self._seen.items() if not ref.expired()}
