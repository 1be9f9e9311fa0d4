"""Scratch memory that libraries of matrix products keep, taken from torch's allocator."""

from __future__ import annotations

from neox_train.memory.plan import RankPlan

_MIB = 1 << 20
_HOPPER = 9.0
_HANDLE_BYTES = 32 * _MIB
_OLDER_HANDLE_BYTES = 8_519_680
"""torch's default workspace of a cuBLAS handle: 32 MiB from Hopper on, before two of 4 MiB and eight of 16 KiB."""
_HANDLES = 2
"""The thread of the forward pass and that of the backward pass have a handle each."""
_TE_BYTES = {True: 32 * _MIB, False: 4 * _MIB}
"""Transformer Engine's own workspace, from Hopper on and before."""


def count_workspaces(plan: RankPlan) -> int:
    """Bytes kept from the first matrix product on; 0 on a CPU."""
    if plan.device == "cpu":
        return 0
    is_hopper = plan.compute_capability >= _HOPPER
    by_te = plan.te_attention or plan.te_mlp or plan.te_columns or plan.te_rows
    return _HANDLES * (_HANDLE_BYTES if is_hopper else _OLDER_HANDLE_BYTES) + by_te * _TE_BYTES[is_hopper]
