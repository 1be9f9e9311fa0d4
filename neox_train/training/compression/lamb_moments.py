"""Second moments of 1-bit LAMB once signs travel."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
import torch.distributed as dist

REFRESH_STEPS = 10
"""Steps between two averages of the ranks' moments."""
_FLOOR = 0.03
"""Of a tensor's mean second moment; smaller ones are raised to it, because signs have no zero."""
_WIRE_DTYPE = torch.bfloat16
"""Their square root is within 0.2 % of the whole number's."""
_OWN = "exp_avg_sq_own"


class LambMoments:
    """Keeps second moments moving, where the paper's algorithm freezes them when the warm-up ends.

    Every rank goes on with moments of its own gradients, and every ``REFRESH_STEPS`` steps the optimizer takes their
    mean over ranks. The frozen trust ratio belongs to the moments that it was taken with: it is scaled each time so
    that a step keeps its length. ``places`` tells where the gradient of each weight stands.
    """

    def __init__(self, optimizer: Any, places: Mapping[torch.Tensor, int], group: Any) -> None:
        self._optimizer, self._places, self._group = optimizer, places, group
        # DeepSpeed's own correction of the trust ratio goes by gradients rebuilt from signs.
        optimizer.factor_min = optimizer.factor_max = 1.0
        self._is_due = False

    def begin(self) -> None:
        """Go on from the moments of whole gradients."""
        for weight in self._places:
            state = self._optimizer.state[weight]
            state[_OWN] = state["exp_avg_sq"].clone()
        self._take_own()

    def add(self, gradients: Sequence[torch.Tensor]) -> None:
        """Count this rank's own gradients of one step, all finite."""
        for group in self._optimizer.param_groups:
            for weight in group["params"]:
                state = self._optimizer.state[weight]
                state[_OWN].lerp_(gradients[self._places[weight]].float().square(), 1 - group["betas"][1])
                self._is_due = state["step"] % REFRESH_STEPS == 0

    def finish_step(self) -> None:
        """Average over ranks where it is time (collective)."""
        if not self._is_due:
            return
        self._is_due = False
        own = [self._optimizer.state[weight][_OWN] for weight in self._places]
        sent = torch.cat([moments.reshape(-1) for moments in own]).to(_WIRE_DTYPE)
        dist.all_reduce(sent, group=self._group)
        means = sent.div_(self._group.size()).split([moments.numel() for moments in own])
        for moments, mean in zip(own, means, strict=True):
            moments.copy_(mean.view_as(moments))
        self._take_own()

    def _take_own(self) -> None:
        for group in self._optimizer.param_groups:
            for weight in group["params"]:
                state = self._optimizer.state[weight]
                before = _measure_update(weight, state, group)
                torch.clamp(state[_OWN], min=_FLOOR * float(state[_OWN].mean()), out=state["exp_avg_sq"])
                after = _measure_update(weight, state, group)
                if before > 0 and after > 0:
                    state["lamb_coeff_freeze"] *= before / after


def _measure_update(weight: torch.Tensor, state: Mapping[str, Any], group: Mapping[str, Any]) -> float:
    """Norm of what the optimizer takes times the learning rate and the trust ratio."""
    update = state["exp_avg"] / (state["exp_avg_sq"].sqrt() + group["eps"])
    return float((update + group["weight_decay"] * weight).norm())
