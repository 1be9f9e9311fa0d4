"""AdamW with 8-bit states over flat buffers on a GPU: what bitsandbytes computes, in one pass over memory.

bitsandbytes' own kernel wants fp32 gradients, leaves the clipping before it and the 16-bit weights after it to passes
of their own, and searches its code books. States and their place in checkpoints are bitsandbytes'.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch

from neox_train.training.flat_adamw import choose_adamw_kernel, find_clip_scale
from neox_train.training.flat_group import FlatGroup


class FlatAdam8bit:
    """Steps the states of bitsandbytes' ``optimizer``, one of those that ``covers`` names."""

    def __init__(self, optimizer: Any) -> None:
        self._optimizer = optimizer

    @staticmethod
    def covers(optimizer: torch.optim.Optimizer, device: torch.device) -> bool:
        """Whether ``optimizer`` is bitsandbytes' AdamW with its states on a GPU that Triton is installed for.

        Lion, paged states and a CPU's it steps itself.
        """
        is_adam = getattr(optimizer, "optimizer_name", None) == "adam" and not getattr(optimizer, "is_paged", True)
        return is_adam and device.type == "cuda" and torch.utils._triton.has_triton()

    @torch.no_grad()
    def apply(
        self, flat_groups: Iterable[FlatGroup], gradients: Iterable[torch.Tensor], norm: torch.Tensor, clipping: float
    ) -> None:
        """Update each group's masters, and its partition of the 16-bit weights, from its gradient of any type.

        ``norm`` is the global gradient norm, finite; ``clipping`` above 0 is the largest norm that is applied.
        """
        scale = find_clip_scale(norm, clipping)
        groups = self._optimizer.param_groups
        for index, (group, flat, gradient) in enumerate(zip(groups, flat_groups, gradients, strict=True)):
            state = self._optimizer.state[flat.master]
            if not state:
                self._optimizer.init_state(group, flat.master, index, 0)
            state["step"] += 1
            if state["state1"].dtype == torch.float32:
                _update_wide(group, state, flat, gradient, scale)
            else:
                _update_blocks(group, state, flat, gradient, scale)


def _update_wide(
    group: dict[str, Any], state: dict[str, Any], flat: FlatGroup, gradient: torch.Tensor, scale: torch.Tensor
) -> None:
    """A group whose states stay in 32 bits."""
    step_size, shrink, denominator_scale = _find_constants(group, state["step"])
    choose_adamw_kernel(flat.master.device.type)(
        flat.master.detach(),
        state["state1"],
        state["state2"],
        gradient,
        flat.partition(flat.weights),
        scale,
        torch.ones_like(scale, dtype=torch.bool),
        # Tensors, because a number would be part of the compiled kernel.
        torch.full_like(scale, step_size),
        torch.full_like(scale, shrink),
        torch.full_like(scale, denominator_scale),
        *group["betas"],
        group["eps"],
    )


def _update_blocks(
    group: dict[str, Any], state: dict[str, Any], flat: FlatGroup, gradient: torch.Tensor, scale: torch.Tensor
) -> None:
    from neox_train.training.eight_bit_kernel import BLOCK_ELEMENTS, ROWS, update_blocks

    elements = flat.master.numel()
    with torch.cuda.device(flat.master.device):
        update_blocks[(-(-elements // (BLOCK_ELEMENTS * ROWS)),)](
            flat.master.detach(),
            flat.partition(flat.weights),
            gradient,
            state["state1"],
            state["state2"],
            state["absmax1"],
            state["absmax2"],
            scale,
            *_find_constants(group, state["step"]),
            *group["betas"],
            group["eps"],
            elements,
            ROWS,
        )


def _find_constants(group: dict[str, Any], step: int) -> tuple[float, float, float]:
    """Step size, factor of decoupled weight decay, and what the root of the second moment is divided by."""
    first_rate, second_rate = group["betas"]
    return (
        group["lr"] / (1.0 - first_rate**step),
        1.0 - group["lr"] * group["weight_decay"],
        (1.0 - second_rate**step) ** 0.5,
    )
