"""How many bytes one collective carries, from its arguments."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch


@dataclass(frozen=True, slots=True)
class Payload:
    """One collective seen by one rank."""

    payload_bytes: int
    """Bytes of the whole tensor: what is reduced, what is there after a gather, what is there before a scatter."""
    wire_bytes: float
    """Bytes one rank must send for it: the payload times the share of the bandwidth-optimal ring algorithm."""
    dtype: str


def _ring_share(size: int) -> float:
    return (size - 1) / size


def _twice_ring_share(size: int) -> float:
    return 2 * (size - 1) / size


def _whole(size: int) -> float:
    return 1.0


_SHARES: dict[str, tuple[str, Callable[[int], float]]] = {
    "all_reduce": ("tensor", _twice_ring_share),
    "all_reduce_coalesced": ("tensors", _twice_ring_share),
    "all_gather_into_tensor": ("output_tensor", _ring_share),
    "all_gather": ("tensor_list", _ring_share),
    "reduce_scatter_tensor": ("input", _ring_share),
    "reduce_scatter": ("input_list", _ring_share),
    "all_to_all_single": ("input", _ring_share),
    "all_to_all": ("input_tensor_list", _ring_share),
    "broadcast": ("tensor", _whole),
    "reduce": ("tensor", _whole),
    "send": ("tensor", _whole),
    "isend": ("tensor", _whole),
}
"""Argument that holds the whole payload, and the share of it that one rank sends; the factors are those with which
NCCL's own tests turn algorithm bandwidth into bus bandwidth. Receiving is the other side of a send: not counted again.
"""

KINDS = tuple(_SHARES)
"""Collectives that are counted."""


def count_payload(kind: str, arguments: Mapping[str, Any], group_size: int) -> Payload:
    """Bytes of a collective of ``kind`` called with these arguments among ``group_size`` ranks."""
    name, share = _SHARES[kind]
    held = arguments[name]
    tensors = [held] if isinstance(held, torch.Tensor) else list(held)
    payload_bytes = sum(tensor.numel() * tensor.element_size() for tensor in tensors)
    dtype = str(tensors[0].dtype).removeprefix("torch.") if tensors else "none"
    return Payload(payload_bytes, payload_bytes * share(group_size), dtype)
