"""Muon for the layers' matrices, AdamW for everything else, as one optimizer."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch

from neox_train.training.parameter_groups import STEPPED_BY_MUON


class MuonWithAdamW(torch.optim.Optimizer):
    """Steps groups marked ``stepped_by_muon`` by torch's Muon and the others by torch's AdamW.

    Muon's step is scaled to the size of AdamW's (``match_rms_adamw``, arXiv 2502.16982), so that one learning rate and
    one schedule serve both. The two share this optimizer's groups and states: what replaces a group's tensors or reads
    a state sees one optimizer.
    """

    def __init__(
        self,
        groups: Iterable[dict[str, Any]],
        *,
        lr: float,
        momentum: float = 0.95,
        nesterov: bool = True,
        ns_steps: int = 5,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        fused_adamw: bool = False,
    ) -> None:
        super().__init__(groups, {"lr": lr})
        matrices = [group for group in self.param_groups if group.get(STEPPED_BY_MUON)]
        others = [group for group in self.param_groups if not group.get(STEPPED_BY_MUON)]
        self._parts: list[torch.optim.Optimizer] = []
        if matrices:
            self._parts.append(
                torch.optim.Muon(
                    matrices,
                    lr=lr,
                    momentum=momentum,
                    nesterov=nesterov,
                    ns_steps=ns_steps,
                    adjust_lr_fn="match_rms_adamw",
                )
            )
        if others:
            self._parts.append(torch.optim.AdamW(others, lr=lr, betas=betas, eps=eps, fused=fused_adamw))
        for part in self._parts:
            part.state = self.state

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> None:
        """Update every parameter that has a gradient; closures are not used."""
        for part in self._parts:
            part.step()
