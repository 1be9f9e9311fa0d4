"""torch.compile of the model's blocks, and the order in which torch tries attention kernels."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
import torch._functorch.config
from torch.nn.attention import SDPBackend, sdpa_kernel

if TYPE_CHECKING:
    from neox_train.model.gpt_neox import GPTNeoX

ATTENTION_KERNELS = (
    SDPBackend.CUDNN_ATTENTION,
    SDPBackend.FLASH_ATTENTION,
    SDPBackend.EFFICIENT_ATTENTION,
    SDPBackend.MATH,
)
"""First is tried first: on Hopper cuDNN's kernel is the faster one, torch's own order starts with FlashAttention 2."""

ACTIVATION_MEMORY_BUDGET = 0.9
"""Share of the default partition's activations that a compiled block keeps: the rest, norms' outputs and the MLP's
activation, are cheap to compute again in the backward pass.
"""

_preferred = None


def prefer_fast_attention(device: torch.device) -> None:
    """Let every later attention of this process try ``ATTENTION_KERNELS`` in their order, on a GPU."""
    global _preferred
    if device.type == "cuda" and _preferred is None:
        _preferred = sdpa_kernel(list(ATTENTION_KERNELS), set_priority=True)
        _preferred.__enter__()


def compile_blocks(model: GPTNeoX, *, backend: str = "inductor") -> None:
    """Compile each block in place, so that names of parameters stay as they are; one graph serves equal blocks.

    A block that cannot be one graph is an error, never a slow run. ``backend`` is torch.compile's.
    """
    torch._functorch.config.activation_memory_budget = ACTIVATION_MEMORY_BUDGET
    for block in model.layers:
        block.compile(fullgraph=True, dynamic=False, backend=backend)
