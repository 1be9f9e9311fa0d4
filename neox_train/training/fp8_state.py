"""Delayed scaling's scales and amax histories, into the checkpoint's JSON and back."""

from __future__ import annotations

from typing import Any

import torch

from neox_train.model.te_adopt import find_te_modules

FP8_STATE = "fp8"
"""Key of the trainer's state; absent without delayed scaling."""

_DIRECTIONS = ("scaling_fwd", "scaling_bwd")
_TENSORS = ("scale", "amax_history")

Saved = dict[str, dict[str, Any]]


def capture_fp8_state(model: torch.nn.Module) -> Saved:
    """Numbers by module, direction and name; empty for recipes that keep none. Every data-parallel rank has the same.

    An fp32 number survives JSON unchanged.
    """
    return {
        name: {f"{direction}.{kind}": tensor.tolist() for direction, kind, tensor in _list_tensors(module)}
        for name, module in find_te_modules(model).items()
        if any(True for _ in _list_tensors(module))
    }


@torch.no_grad()
def restore_fp8_state(model: torch.nn.Module, saved: Saved, *, shape: tuple[int, int], device: torch.device) -> None:
    """Put the numbers back, on every rank; ``shape`` is a batch and sequence length that FP8 can compute.

    Transformer Engine makes its state in the first forward pass, so one is made here and its traces overwritten.
    """
    was_training = model.training
    model.eval()
    model(torch.zeros(shape, dtype=torch.int64, device=device))
    model.train(was_training)
    modules = find_te_modules(model)
    for name, values in saved.items():
        for direction, kind, tensor in _list_tensors(modules[name]):
            tensor.copy_(torch.tensor(values[f"{direction}.{kind}"], dtype=tensor.dtype))


def _list_tensors(module: Any) -> list[tuple[str, str, torch.Tensor]]:
    found = []
    for direction in _DIRECTIONS:
        state = module.fp8_meta.get(direction)
        for kind in _TENSORS:
            tensor = getattr(state, kind, None)
            if isinstance(tensor, torch.Tensor):
                found.append((direction, kind, tensor))
    return found
