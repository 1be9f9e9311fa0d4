"""bf16 training with fp32 master weights in flat buffers, as one client optimizer of the DeepSpeed engine.

DeepSpeed's own 16-bit wrappers copy, scale and measure gradients parameter by parameter and read the norm on the host.
Here a group is one buffer: one kernel each for the norm, the update and the cast, and a step whose gradients are not
finite is skipped by the update kernel itself.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import torch
import torch.distributed as dist
from torch import nn

from neox_train.checkpoint.adapters.held import EngineState, Held, Names, Position, lay_out, name_group
from neox_train.training.flat_adam8bit import FlatAdam8bit
from neox_train.training.flat_adamw import FlatAdamW
from neox_train.training.flat_group import FlatGroup

BaseOptimizer = Callable[[list[dict[str, Any]]], torch.optim.Optimizer]


class FlatMasters(torch.optim.Optimizer):
    """Steps fp32 masters of bf16 weights; ZeRO stage 1 where ``shards`` ranks share the masters.

    ``param_groups`` hold the model's parameters, and the learning rate is read off them; ``base`` steps the partitions.
    Gradients are taken from each parameter as soon as its backward pass ends and added up in ``gradients`` buffers.
    """

    def __init__(
        self, groups: list[dict[str, Any]], build_base: BaseOptimizer, *, gradient_clipping: float, shards: int
    ) -> None:
        super().__init__(groups, {"lr": 0.0})
        ranks = dist.get_world_size()
        if shards not in (1, ranks):
            raise ValueError(f"{shards} shards of the master weights among {ranks} ranks")
        self._ranks, self._shards = ranks, shards
        shard = dist.get_rank() if shards > 1 else 0
        self.flat_groups = [FlatGroup(group["params"], shards=shards, shard=shard) for group in self.param_groups]
        self.base = build_base(
            [
                {**group, "params": [flat.master]}
                for group, flat in zip(self.param_groups, self.flat_groups, strict=True)
            ]
        )
        is_fused = FlatAdam8bit.covers(self.base, self.flat_groups[0].master.device)
        self._eight_bit = FlatAdam8bit(self.base) if is_fused else None
        self._clipping = gradient_clipping
        self._communication_dtype: torch.dtype | None = None
        self._added: set[nn.Parameter] = set()
        self.grad_norm = torch.zeros((), device=self.flat_groups[0].master.device)
        """L2 norm of the averaged gradient before clipping, on the device; not finite where the step was skipped."""

    def attach(
        self, dtype: torch.dtype, *, gradient_dtype: torch.dtype, communication_dtype: torch.dtype | None
    ) -> None:
        """Cast the model to ``dtype`` and start to collect gradients; the engine must be built already.

        ``gradient_dtype`` is that of accumulation; gradients are summed over ranks in ``communication_dtype``, None for
        the same.
        """
        self._communication_dtype = communication_dtype
        for flat in self.flat_groups:
            flat.cast(dtype)
        for flat in self.flat_groups:
            flat.allocate_gradients(gradient_dtype)
            for parameter, view in zip(flat.parameters, flat.views(flat.gradients), strict=True):
                parameter.register_post_accumulate_grad_hook(self._collector(view))

    def describe_types(self) -> tuple[torch.dtype, torch.dtype, torch.dtype]:
        """Number formats of weights, gradient accumulation and communication."""
        flat = self.flat_groups[0]
        return flat.weights.dtype, flat.gradients.dtype, self._communication_dtype or flat.gradients.dtype

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> None:
        """Reduce, measure, clip and apply the gradients, all on the device; closures are not used."""
        gradients = [self._reduce(flat) for flat in self.flat_groups]
        self._added.clear()
        self.grad_norm = self._measure_norm(gradients)
        for own, given in zip(self.base.param_groups, self.param_groups, strict=True):
            own["lr"] = given["lr"]
        if isinstance(self.base, FlatAdamW):
            self.base.apply(self.flat_groups, gradients, self.grad_norm, self._clipping)
            self._gather()
        elif self._eight_bit is None:
            self._step_base(gradients)
        elif bool(self.grad_norm.isfinite()):
            self._eight_bit.apply(self.flat_groups, gradients, self.grad_norm, self._clipping)
            self._gather()

    @torch.no_grad()
    def publish(self) -> None:
        """Rebuild the weights that the forward pass reads from the master weights (collective)."""
        for flat in self.flat_groups:
            flat.partition(flat.weights).copy_(flat.master)
        self._gather()

    def open_state(self, names: Names, position: Position) -> EngineState:
        """Where a checkpoint finds masters and optimizer states."""
        held = []
        for index, flat in enumerate(self.flat_groups):
            listed = name_group(flat.parameters, names)
            segments = lay_out(listed, flat.begin, flat.begin + flat.share)
            held.append(Held(flat.master, segments, [name for name, _ in listed], index))
        sharded = self._shards > 1
        return EngineState(
            kind="partitioned" if sharded else "flat",
            optimizer=self.base,
            held=held,
            replicated=not sharded,
            refresh=self.publish,
            position=position,
        )

    def _collector(self, view: torch.Tensor) -> Callable[[nn.Parameter], None]:
        def collect(parameter: nn.Parameter) -> None:
            gradient = parameter.grad
            assert gradient is not None
            if parameter in self._added:
                view.add_(gradient)
            else:
                view.copy_(gradient)
                self._added.add(parameter)
            parameter.grad = None

        return collect

    def _gather(self) -> None:
        if self._shards > 1:
            for flat in self.flat_groups:
                dist.all_gather_into_tensor(flat.weights, flat.partition(flat.weights))

    def _reduce(self, flat: FlatGroup) -> torch.Tensor:
        """This rank's partition of the gradient averaged over ranks."""
        for parameter, view in zip(flat.parameters, flat.views(flat.gradients), strict=True):
            # A parameter that no micro-batch reached has a gradient of zero, not the last step's.
            if parameter not in self._added:
                view.zero_()
        if self._ranks == 1:
            return flat.partition(flat.gradients)
        sent = flat.gradients.to(self._communication_dtype or flat.gradients.dtype)
        sent.div_(self._ranks)
        if self._shards == 1:
            dist.all_reduce(sent)
            return sent
        own = torch.empty(flat.share, dtype=sent.dtype, device=sent.device)
        dist.reduce_scatter_tensor(own, sent)
        return own

    def _measure_norm(self, gradients: list[torch.Tensor]) -> torch.Tensor:
        norms = [torch.linalg.vector_norm(gradient, dtype=torch.float32) for gradient in gradients]
        squares = torch.stack(norms).square().sum()
        if self._shards > 1:
            dist.all_reduce(squares)
        return squares.sqrt()

    def _step_base(self, gradients: list[torch.Tensor]) -> None:
        """An optimizer with a step of its own: fp32 gradients, clipped before it, and a skip that the host decides."""
        scale = (self._clipping / (self.grad_norm + 1e-6)).clamp(max=1.0) if self._clipping else None
        for flat, gradient in zip(self.flat_groups, gradients, strict=True):
            flat.master.grad = (
                gradient.float() if scale is None else _choose_scaling(gradient.device.type)(gradient, scale)
            )
        if bool(self.grad_norm.isfinite()):
            self.base.step()
        for flat in self.flat_groups:
            flat.master.grad = None
        self.publish()


def _scale(gradient: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    return gradient.float() * scale


@cache
def _choose_scaling(device_type: str) -> Callable[[torch.Tensor, torch.Tensor], torch.Tensor]:
    # Compiled it is one pass over memory, with no fp32 copy in between.
    return torch.compile(_scale, fullgraph=True, dynamic=False) if device_type == "cuda" else _scale
