"""AdamW over flat buffers: gradient in, moments, master weights and 16-bit weights out, in one pass over memory."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import Any

import torch

from neox_train.training.flat_group import FlatGroup


class FlatAdamW(torch.optim.Optimizer):
    """AdamW (arXiv 1711.05101) whose ``apply`` clips, skips, updates and casts by one kernel a group.

    States have the names and shapes of torch's AdamW, so that checkpoints of either resume in the other. A GPU never
    waits for the host: learning rate, clipping and the decision to skip are read by the kernel.
    """

    def __init__(
        self,
        groups: Iterable[dict[str, Any]],
        *,
        lr: float,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
    ) -> None:
        super().__init__(groups, {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay})

    @torch.no_grad()
    def apply(
        self, flat_groups: Iterable[FlatGroup], gradients: Iterable[torch.Tensor], norm: torch.Tensor, clipping: float
    ) -> None:
        """Update each group's masters, and its partition of the 16-bit weights, from its gradient of any type.

        ``norm`` is the global gradient norm; one that is not finite leaves every tensor as it is. ``clipping`` above 0
        is the largest norm that is applied.
        """
        finite = norm.isfinite()
        scale = find_clip_scale(norm, clipping)
        for group, flat, gradient in zip(self.param_groups, flat_groups, gradients, strict=True):
            self._apply_group(group, flat, gradient, scale, finite)

    def _apply_group(
        self,
        group: dict[str, Any],
        flat: FlatGroup,
        gradient: torch.Tensor,
        scale: torch.Tensor,
        finite: torch.Tensor,
    ) -> None:
        master = flat.master
        state = self.state[master]
        if not state:
            state["step"] = torch.zeros((), dtype=torch.float32, device=master.device)
            state["exp_avg"] = torch.zeros_like(master)
            state["exp_avg_sq"] = torch.zeros_like(master)
        state["step"] += finite
        first_rate, second_rate = group["betas"]
        steps = state["step"].double()
        first_correction = (1.0 - first_rate**steps).float()
        second_correction = (1.0 - second_rate**steps).float()
        choose_adamw_kernel(master.device.type)(
            master.detach(),
            state["exp_avg"],
            state["exp_avg_sq"],
            gradient,
            flat.partition(flat.weights),
            scale,
            finite,
            # Tensors, because a number would be part of the compiled kernel.
            torch.full_like(scale, group["lr"]) / first_correction,
            torch.full_like(scale, 1.0 - group["lr"] * group["weight_decay"]),
            second_correction.sqrt(),
            first_rate,
            second_rate,
            group["eps"],
        )


def _update(
    master: torch.Tensor,
    first: torch.Tensor,
    second: torch.Tensor,
    gradient: torch.Tensor,
    weights: torch.Tensor,
    scale: torch.Tensor,
    finite: torch.Tensor,
    step_size: torch.Tensor,
    shrink: torch.Tensor,
    denominator_scale: torch.Tensor,
    first_rate: float,
    second_rate: float,
    eps: float,
) -> None:
    applied = gradient.float() * scale
    new_first = first_rate * first + (1.0 - first_rate) * applied
    new_second = second_rate * second + (1.0 - second_rate) * applied * applied
    new_master = master * shrink - step_size * new_first / (new_second.sqrt() / denominator_scale + eps)
    new_master = torch.where(finite, new_master, master)
    first.copy_(torch.where(finite, new_first, first))
    second.copy_(torch.where(finite, new_second, second))
    weights.copy_(new_master)
    master.copy_(new_master)


def find_clip_scale(norm: torch.Tensor, clipping: float) -> torch.Tensor:
    """What gradients of this ``norm`` are multiplied with: 1, or less where ``clipping`` above 0 is below the norm."""
    # torch's clip_grad_norm_ adds the same 1e-6.
    return (clipping / (norm + 1e-6)).clamp(max=1.0) if clipping else torch.ones_like(norm)


@cache
def choose_adamw_kernel(device_type: str) -> Any:
    """One update over flat buffers, compiled on a GPU; its arguments are those of ``_update``."""
    if device_type != "cuda":
        return _update
    # Choosing among block sizes would run the kernel on copies of the buffers that it writes, held on the host:
    # 106 GiB at 2.7 billion weights. Any block size reads memory as fast as it goes.
    return torch.compile(_update, fullgraph=True, dynamic=False, options={"triton.autotune_pointwise": False})
