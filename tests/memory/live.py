"""Counts the tensors that are alive while operations run."""

from __future__ import annotations

import time
from typing import Any

import torch
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode

from neox_train.model.gpt_neox import GPTNeoX

_SETTLING_SECONDS = 0.05


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

    def read_settled(self) -> int:
        """Bytes alive once nothing is let go any more: gloo's threads hold a finished collective's tensors a little."""
        last = -1
        while last != self.now:
            last = self.now
            time.sleep(_SETTLING_SECONDS)
        return last

    def _forget(self) -> None:
        self._seen = {key: (ref, size) for key, (ref, size) in self._seen.items() if not ref.expired()}


def measure_kept(model: GPTNeoX, hidden: torch.Tensor, length: int) -> int:
    """Bytes that the layers' forward pass keeps of ``hidden``, the result among them."""
    with LiveBytes(model) as live:
        live._add(hidden)
        with torch.no_grad():
            # Fills the rotary tables.
            model.run_layers(hidden, length=length)
        before = live.read_settled()
        out = model.run_layers(hidden, length=length)
        kept = live.read_settled() - before
    del out
    return kept
