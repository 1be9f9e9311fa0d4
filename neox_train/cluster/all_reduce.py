"""How fast the ranks of a job add up a buffer together: the figure that shows a slow link or the wrong network."""

from __future__ import annotations

import time
from datetime import timedelta
from typing import Any

from neox_train.cluster.sweep import sweep

_TIMEOUT = timedelta(seconds=120)
_SIZES_MIB = {"nccl": 256, "gloo": 8}
_REPEATS = {"nccl": 10, "gloo": 3}


def measure(device: str) -> dict[str, Any]:
    """Bus bandwidth over all ranks in GB/s, median of some repeats on the slowest rank.

    Every rank calls it, with torch's process group started. Bus bandwidth is 2 (n - 1) / n times bytes by seconds,
    which does not depend on the number of ranks n (the convention of NVIDIA's nccl-tests).
    """
    import torch
    import torch.distributed as dist

    ranks, backend = dist.get_world_size(), "nccl" if device == "cuda" else "gloo"
    buffer = torch.ones(_SIZES_MIB[backend] * 2**18, dtype=torch.float32, device=device)
    seconds = []
    for _ in range(_REPEATS[backend] + 1):
        buffer.fill_(1.0)
        dist.barrier()
        started = time.perf_counter()
        dist.all_reduce(buffer)
        if device == "cuda":
            torch.cuda.synchronize()
        seconds.append(time.perf_counter() - started)
    if float(buffer[0]) != ranks or float(buffer[-1]) != ranks:
        return {"error": f"the sum over {ranks} ranks is {float(buffer[0]):g}: a GPU or a link gives wrong results"}
    # The first one sets up connections. Every rank gets the slowest one's figure: they judge it alike.
    slowest = torch.tensor(sorted(seconds[1:])[len(seconds[1:]) // 2], dtype=torch.float32, device=device)
    dist.all_reduce(slowest, op=dist.ReduceOp.MAX)
    median = float(slowest)
    size_bytes = buffer.numel() * buffer.element_size()
    rate = 2 * (ranks - 1) / ranks * size_bytes / median / 1e9
    return {"backend": backend, "ranks": ranks, "gb_per_second": rate, "bytes": size_bytes, "seconds": median}


def start_and_measure(device: str, local_rank: int, *, sweep_seconds: float = 0.0) -> dict[str, Any]:
    """``measure`` with a process group of its own, from MASTER_ADDR and its companions; a failure is an ``error``.

    With ``sweep_seconds`` the rows of a sweep that takes about as long are under ``sweep``.
    """
    try:
        import torch
        import torch.distributed as dist

        if device == "cuda":
            torch.cuda.set_device(local_rank)
        dist.init_process_group("nccl" if device == "cuda" else "gloo", timeout=_TIMEOUT)
        try:
            measured = measure(device)
            if sweep_seconds and "error" not in measured:
                measured["sweep"] = sweep(device, limit_seconds=sweep_seconds)
            return measured
        finally:
            dist.destroy_process_group()
    except Exception as error:
        return {"error": f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"}
