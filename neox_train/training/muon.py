"""Muon for the layers' matrices, AdamW for everything else, as one optimizer."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import torch

from neox_train.training.parameter_groups import STEPPED_BY_MUON

if TYPE_CHECKING:
    from neox_train.training.muon_shards import ShardedMatrices


class MuonWithAdamW(torch.optim.Optimizer):
    """Steps groups marked ``stepped_by_muon`` by torch's Muon and the others by torch's AdamW.

    Muon's step is scaled to the size of AdamW's (``match_rms_adamw``, arXiv 2502.16982), so that one learning rate and
    one schedule serve both. The two share this optimizer's groups and states: what replaces a group's tensors or reads
    a state sees one optimizer. Flat tensors, which ZeRO puts in the place of matrices, keep their part of the momentum;
    torch's Muon then steps the matrices that ``matrices`` completes from them.
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
        self.matrices: ShardedMatrices | None = None
        marked = [group for group in self.param_groups if group.get(STEPPED_BY_MUON)]
        others = [group for group in self.param_groups if not group.get(STEPPED_BY_MUON)]
        self._marked = marked
        self._ns_steps = ns_steps
        self._muon = (
            torch.optim.Muon(
                marked, lr=lr, momentum=momentum, nesterov=nesterov, ns_steps=ns_steps, adjust_lr_fn="match_rms_adamw"
            )
            if marked
            else None
        )
        self._adamw = torch.optim.AdamW(others, lr=lr, betas=betas, eps=eps, fused=fused_adamw) if others else None
        for part in (self._muon, self._adamw):
            if part is not None:
                part.state = self.state

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> None:
        """Update every parameter that has a gradient; closures are not used."""
        flat = [
            (tensor, group)
            for group in self._marked
            for tensor in group["params"]
            if tensor.dim() == 1 and tensor.grad is not None
        ]
        for tensor, group in flat:
            self._step_flat(tensor, group)
        if self._muon is not None and not flat:
            self._muon.step()
        if self._adamw is not None:
            self._adamw.step()

    def _step_flat(self, tensor: torch.Tensor, group: dict[str, Any]) -> None:
        """Muon's step of the slices in ``tensor``: the momentum slice by slice, the rest matrix by matrix."""
        assert tensor.grad is not None and self.matrices is not None
        gradient = tensor.grad.to(tensor.dtype)
        state = self.state[tensor]
        if "momentum_buffer" not in state:
            state["momentum_buffer"] = torch.zeros_like(tensor)
        momentum = state["momentum_buffer"]
        momentum.lerp_(gradient, 1 - group["momentum"])
        directions = gradient.lerp(momentum, group["momentum"]) if group["nesterov"] else momentum
        for part, matrix in self.matrices.complete(tensor, directions):
            weight = part.read(tensor)
            if part.length == matrix.numel():
                self._step_matrix(weight.view(matrix.shape), matrix, group)
                continue
            whole = torch.zeros(matrix.shape, dtype=tensor.dtype, device=tensor.device)
            own = whole.view(-1)[part.start : part.start + part.length]
            own.copy_(weight)
            self._step_matrix(whole, matrix, group)
            weight.copy_(own)

    def _step_matrix(self, weight: torch.Tensor, direction: torch.Tensor, group: dict[str, Any]) -> None:
        """torch's Muon on one matrix, in place, along a direction that has the momentum in it already."""
        parameter = torch.nn.Parameter(weight)
        parameter.grad = direction.to(weight.dtype)
        torch.optim.Muon(
            [parameter],
            lr=group["lr"],
            weight_decay=group["weight_decay"],
            momentum=0.0,
            nesterov=False,
            ns_steps=self._ns_steps,
            adjust_lr_fn="match_rms_adamw",
        ).step()
