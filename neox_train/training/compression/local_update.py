"""Local updates (DiLoCo): each replica takes steps by itself, and what travels is the change of its weights.

Source: Douillard and others, "DiLoCo: Distributed Low-Communication Training of Language Models", arXiv 2311.08105.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
import torch.distributed as dist

from neox_train.checkpoint.adapters.held import EngineState
from neox_train.checkpoint.optimizer_state import put_state
from neox_train.checkpoint.own_state import SavedOwnState, Tensors
from neox_train.errors import CheckpointError
from neox_train.training.compression.seam import agree_on_finite


class LocalUpdate:
    """Averages the weights' change over ``group`` every ``every`` steps and takes an outer Nesterov step along it.

    ``average`` sums whole gradients in the first ``start_step`` steps. ``engine`` tells the fp32 master weights, which
    every rank must hold whole; the outer weights and momentum are fp32 too. ``wire_dtype`` is the format in which the
    change travels.
    """

    def __init__(
        self,
        engine: EngineState,
        average: Callable[[Sequence[torch.Tensor]], None],
        *,
        every: int,
        start_step: int,
        lr: float,
        momentum: float,
        wire_dtype: torch.dtype,
        group: Any,
    ) -> None:
        if not engine.replicated:
            raise ValueError("local updates need whole master weights on every rank")
        self._engine, self._average, self._every, self._wire_dtype = engine, average, every, wire_dtype
        self._group = group
        self._masters = [held.tensor.detach() for held in engine.held]
        self._outer = [master.clone() for master in self._masters]
        self._optimizer = torch.optim.SGD(self._outer, lr=lr, momentum=momentum, nesterov=momentum > 0)
        self._steps, self._whole_steps_left = 0, start_step

    def reduce(self, gradients: Sequence[torch.Tensor]) -> None:
        """Leave each replica its own gradients, or average them at the start; all skip the step together."""
        if agree_on_finite(gradients, self._group) and self._whole_steps_left:
            self._average(gradients)

    def finish_step(self) -> None:
        """Count the step, and synchronise after every ``every`` that replicas took by themselves."""
        if self._whole_steps_left:
            self._whole_steps_left -= 1
            if not self._whole_steps_left:
                self._take_outer()
            return
        self._steps += 1
        if self._steps >= self._every:
            self._synchronise()

    def finish_training(self) -> None:
        """Synchronise steps that are not averaged yet, so that the last checkpoint holds what was learned in them."""
        if self._steps:
            self._synchronise()

    @torch.no_grad()
    def _synchronise(self) -> None:
        changes = [outer - master for outer, master in zip(self._outer, self._masters, strict=True)]
        sent = torch.cat([change.reshape(-1) for change in changes]).to(self._wire_dtype)
        dist.all_reduce(sent, group=self._group)
        averaged = sent.float().div_(self._group.size()).split([outer.numel() for outer in self._outer])
        for outer, change in zip(self._outer, averaged, strict=True):
            outer.grad = change.view_as(outer)
        self._optimizer.step()
        self._optimizer.zero_grad()
        self._show(self._outer)
        self._engine.refresh()
        self._steps = 0

    @contextmanager
    def capture(self) -> Iterator[Tensors]:
        """This replica's weights and optimizer states, and on rank 0 the outer momentum.

        Within the block the master weights are the outer ones: those are what a checkpoint's weights are.
        """
        if self._whole_steps_left:
            self._take_outer()
        own = [master.clone() for master in self._masters]
        counts = {"steps": self._steps, "whole_steps_left": self._whole_steps_left}
        tensors = {name: torch.tensor(count, dtype=torch.int64) for name, count in counts.items()}
        for index, (held, weights) in enumerate(zip(self._engine.held, own, strict=True)):
            tensors[f"weights:{index}"] = weights
            for key, value in self._engine.optimizer.state.get(held.tensor, {}).items():
                if torch.is_tensor(value):
                    tensors[f"{key}:{index}"] = value
            momentum = self._optimizer.state.get(self._outer[index], {}).get("momentum_buffer")
            if momentum is not None and dist.get_rank() == 0:
                tensors[f"outer_momentum:{index}"] = momentum
        self._show(self._outer)
        try:
            yield tensors
        finally:
            self._show(own)

    @torch.no_grad()
    def restore(self, saved: SavedOwnState, rank: int) -> None:
        """Take the outer weights from the engine, then the own ones; CheckpointError at another number of ranks."""
        self._take_outer()
        first = saved.read(0)
        if "steps" not in first:
            return
        if saved.ranks != self._group.size():
            raise CheckpointError(
                f"the checkpoint holds {saved.ranks} replicas of gradient_compression: local_update, each with weights "
                f"of its own, and this run has {self._group.size()}; resume with {saved.ranks} processes"
            )
        own = saved.read(rank)
        self._steps = int(own.pop("steps"))
        self._whole_steps_left = int(own.pop("whole_steps_left", 0))
        for name, value in own.items():
            key, index = name.rsplit(":", 1)
            self._put(key, int(index), value)
        for name, value in first.items():
            if name.startswith("outer_momentum:"):
                outer = self._outer[int(name.rsplit(":", 1)[1])]
                self._optimizer.state[outer]["momentum_buffer"] = value.to(outer.device)
        self._engine.refresh()

    def _put(self, key: str, index: int, value: torch.Tensor) -> None:
        if key == "weights":
            self._masters[index].copy_(value)
        elif key != "outer_momentum":
            put_state(self._engine.optimizer.state[self._engine.held[index].tensor], key, value)

    @torch.no_grad()
    def _take_outer(self) -> None:
        for outer, master in zip(self._outer, self._masters, strict=True):
            outer.copy_(master)

    @torch.no_grad()
    def _show(self, weights: Sequence[torch.Tensor]) -> None:
        for master, values in zip(self._masters, weights, strict=True):
            master.copy_(values)
