"""Where the payload of each kind of collective stands, and how much of it one rank sends."""

from __future__ import annotations

from collections.abc import Callable


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
"""Argument that holds the whole payload (what is reduced, what is there after a gather or before a scatter), and the
share of it that one rank sends; the factors are those with which NCCL's own tests turn algorithm bandwidth into bus
bandwidth. Receiving is the other side of a send: not counted again.
"""

KINDS = tuple(_SHARES)
"""Collectives that are counted."""


def payload_argument(kind: str) -> str:
    """Name of the argument that holds the whole payload of a collective of ``kind``: a tensor or a list of them."""
    return _SHARES[kind][0]


def wire_share(kind: str, group_size: int) -> float:
    """Bytes that one of ``group_size`` ranks must send for a collective of ``kind``, by those of the payload."""
    return _SHARES[kind][1](group_size)
