"""ZeRO 3's gathering of weights over gloo."""

from __future__ import annotations

from typing import Any

import torch


def gather_one_by_one(settings: dict[str, Any], device: torch.device) -> dict[str, Any]:
    """DeepSpeed's JSON ``settings``, with which ZeRO 3 on a CPU waits for every gathered weight.

    DeepSpeed 0.19.6 gathers small weights after a step together and waits for the last one. NCCL ends them in order;
    gloo does not, and a forward pass on a busy machine then reads memory that nothing has been written to.
    """
    zero = settings.get("zero_optimization") or {}
    if device.type != "cpu" or zero.get("stage") != 3:
        return settings
    return {**settings, "zero_optimization": {**zero, "stage3_allgather_sequential": True}}
