"""Collectives of all kinds and sizes over the ranks of a job: where latency ends and bandwidth begins."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

KINDS = ("all_reduce", "all_gather", "reduce_scatter", "p2p")
SIZES = tuple(2**exponent for exponent in range(10, 31, 2))
"""Bytes, 1 KiB to 1 GiB: of the whole buffer, as nccl-tests count it."""
_REPEATS = 5
_SHARE_OF_FREE = 0.25
"""A measurement holds two buffers of the size at most, and leaves room for the library's own."""
_FP32 = 4

Row = dict[str, Any]


def bus_bytes(kind: str, size_bytes: int, ranks: int) -> float:
    """Bytes over a link, by the convention of NVIDIA's nccl-tests: bandwidths of any number of ranks compare."""
    if kind == "p2p":
        return float(size_bytes)
    share = (ranks - 1) / ranks * size_bytes
    return 2 * share if kind == "all_reduce" else share


def sweep(device: str, *, limit_seconds: float, largest_bytes: int = SIZES[-1]) -> list[Row]:
    """Median seconds of the slowest rank and bus bandwidth by kind and size.

    Every rank calls it, with torch's process group started. A kind ends early where its next size would not fit the
    memory or its quarter of ``limit_seconds``; the ranks agree on that. In p2p the first half sends to the second.
    """
    import torch
    import torch.distributed as dist

    ranks = dist.get_world_size()
    largest = min(largest_bytes, int(_agree(_free_bytes(device) * _SHARE_OF_FREE, device, dist.ReduceOp.MIN)))
    rows: list[Row] = []
    for kind in KINDS:
        began, next_seconds = time.perf_counter(), 0.0
        for size in SIZES:
            spent = _agree(time.perf_counter() - began, device, dist.ReduceOp.MAX)
            if size > largest or ranks == 1 or spent + next_seconds > limit_seconds / len(KINDS):
                break
            call = _prepare(kind, size, device)
            seconds = _time(call, device)
            if device == "cuda":
                torch.cuda.empty_cache()
            rate = bus_bytes(kind, size, ranks) / seconds / 1e9
            rows.append({"kind": kind, "bytes": size, "seconds": seconds, "gb_per_second": rate, "ranks": ranks})
            # The next buffer is four times as large, and there is a first call that is not counted.
            next_seconds = 4 * seconds * (_REPEATS + 1)
    return rows


def _prepare(kind: str, size_bytes: int, device: str) -> Callable[[], Any]:
    import torch
    import torch.distributed as dist

    ranks, rank = dist.get_world_size(), dist.get_rank()
    part = torch.ones(max(1, size_bytes // _FP32 // ranks), device=device)
    whole = torch.ones(part.numel() * ranks, device=device)
    if kind == "all_reduce":
        return lambda: dist.all_reduce(whole)
    if kind == "all_gather":
        return lambda: dist.all_gather_into_tensor(whole, part)
    if kind == "reduce_scatter":
        return lambda: dist.reduce_scatter_tensor(part, whole)
    half = ranks // 2
    if rank < half:
        return lambda: dist.send(whole, rank + half)
    if rank < 2 * half:
        return lambda: dist.recv(whole, rank - half)
    return lambda: None


def _time(call: Callable[[], Any], device: str) -> float:
    import torch
    import torch.distributed as dist

    seconds = []
    for _ in range(_REPEATS + 1):
        dist.barrier()
        began = time.perf_counter()
        call()
        if device == "cuda":
            torch.cuda.synchronize()
        seconds.append(time.perf_counter() - began)
    # The first one sets up connections.
    return _agree(sorted(seconds[1:])[_REPEATS // 2], device, dist.ReduceOp.MAX)


def _agree(value: float, device: str, operation: Any) -> float:
    import torch
    import torch.distributed as dist

    agreed = torch.tensor([value], dtype=torch.float64, device=device)
    dist.all_reduce(agreed, op=operation)
    return float(agreed)


def _free_bytes(device: str) -> float:
    """Of this rank: its GPU's, or its share of the machine's if every rank were here."""
    import psutil
    import torch
    import torch.distributed as dist

    if device == "cuda":
        return float(torch.cuda.mem_get_info()[0])
    return psutil.virtual_memory().available / dist.get_world_size()
