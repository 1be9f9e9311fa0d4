"""The state a base optimizer keeps for one tensor: element by element, single values, or opaque tensors."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch

Scalar = dict[str, Any]
"""A single value as JSON: ``value``, ``type``, for tensors ``dtype`` and ``on_device`` too."""


@dataclass
class TensorState:
    """State of one tensor, split by how it can be stored."""

    elementwise: dict[str, torch.Tensor] = field(default_factory=dict)
    """Same shape as the tensor: can be cut into fragments."""
    scalars: dict[str, Scalar] = field(default_factory=dict)
    opaque: dict[str, torch.Tensor] = field(default_factory=dict)
    """Quantised or factored states: only meaningful for this very tensor."""


def split_state(tensor: torch.Tensor, state: dict[str, Any]) -> TensorState:
    """Split the state; where one part is opaque all tensors are, because they belong together."""
    split = TensorState()
    for key, value in state.items():
        if not torch.is_tensor(value):
            split.scalars[key] = _describe_value(key, value)
        elif value.dim() == 0:
            split.scalars[key] = _describe_tensor(value)
        elif value.shape == tensor.shape and value.is_floating_point():
            split.elementwise[key] = value
        else:
            split.opaque[key] = value
    if split.opaque:
        split.opaque |= split.elementwise
        split.elementwise = {}
    return split


def build_scalar(scalar: Scalar, tensor: torch.Tensor, *, is_fused: bool = False) -> Any:
    """The value a Scalar describes, on the tensor's device where it was on one or ``is_fused`` wants it there."""
    if scalar["type"] != "tensor":
        return scalar["value"]
    device = tensor.device if scalar["on_device"] or is_fused else torch.device("cpu")
    return torch.tensor(scalar["value"], dtype=getattr(torch, scalar["dtype"]), device=device)


def is_fused(optimizer: torch.optim.Optimizer, tensor: torch.Tensor) -> bool:
    """Whether one kernel steps the tensor: torch's read the step count from its device, and refuse one elsewhere.

    A checkpoint of states on a CPU (offloaded, or of a training there) says nothing about a device.
    """
    return any(
        bool(group.get("fused") or group.get("capturable"))
        for group in optimizer.param_groups
        if any(held is tensor for held in group["params"])
    )


def put_state(state: dict[str, Any], key: str, value: Any) -> None:
    """Set a state value, in place where a tensor of that shape and type is there already (paged memory stays so)."""
    old = state.get(key)
    if (
        isinstance(old, torch.Tensor)
        and isinstance(value, torch.Tensor)
        and old.shape == value.shape
        and old.dtype == value.dtype
    ):
        old.copy_(value)
    else:
        state[key] = value


def describe_groups(optimizer: torch.optim.Optimizer) -> list[dict[str, Any]]:
    """Hyper-parameters of each parameter group that are JSON values."""
    return [
        {key: value for key, value in group.items() if key != "params" and _is_json(value)}
        for group in optimizer.param_groups
    ]


def restore_groups(optimizer: torch.optim.Optimizer, groups: list[dict[str, Any]]) -> None:
    """Put back what an optimizer itself advances: the learning rate and the step count some keep in their groups.

    The other hyper-parameters belong to the configuration, which a resume has compared already.
    """
    for group, saved in zip(optimizer.param_groups, groups, strict=False):
        for key in ("lr", "step"):
            if key in group and key in saved:
                group[key] = saved[key]


def _describe_value(key: str, value: Any) -> Scalar:
    if not _is_json(value):
        raise TypeError(f"optimizer state {key!r} of type {type(value).__name__} has no place in a checkpoint")
    return {"value": value, "type": type(value).__name__}


def _describe_tensor(value: torch.Tensor) -> Scalar:
    return {
        "value": value.item(),
        "type": "tensor",
        "dtype": str(value.dtype).removeprefix("torch."),
        "on_device": value.device.type != "cpu",
    }


def _is_json(value: Any) -> bool:
    if isinstance(value, list | tuple):
        return all(_is_json(item) for item in value)
    return value is None or isinstance(value, bool | int | float | str)
