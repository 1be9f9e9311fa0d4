"""1-bit optimizers on an engine: when whole gradients travel, and what each rank keeps in a checkpoint."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist
from deepspeed.runtime.fp16.onebit.adam import OnebitAdam
from deepspeed.runtime.fp16.onebit.lamb import OnebitLamb
from deepspeed.runtime.fp16.onebit.zoadam import ZeroOneAdam

from neox_train.checkpoint.adapters.held import EngineState
from neox_train.checkpoint.optimizer_state import put_state
from neox_train.checkpoint.own_state import SavedOwnState, Tensors
from neox_train.errors import CheckpointError
from neox_train.training.compression.lamb_moments import LambMoments
from neox_train.training.compression.one_bit_optimizer import allocate_states
from neox_train.training.compression.seam import agree_on_finite, average_whole

if TYPE_CHECKING:
    from deepspeed import DeepSpeedEngine

_SWITCHES = ("adam_freeze_key", "lamb_freeze_key", "freeze_key", "reinitial_error_buffer")
"""Attributes in which the optimizers keep their phase."""
_FLOOR = 0.1
"""Of a tensor's mean second moment; smaller ones are raised to it."""


class OneBit:
    """Averages whole gradients as long as the optimizer asks for it; then it exchanges signs itself, in its step."""

    def __init__(self, engine: DeepSpeedEngine, state: EngineState, group: Any) -> None:
        self._engine: Any = engine
        self._state, self._group = state, group
        self._optimizer: Any = state.optimizer
        self._switch = self._optimizer.deepspeed
        self._masters = [held.tensor.detach() for held in state.held]
        self._is_floored = False
        allocate_states(self._optimizer)
        self._lamb_moments = None
        if isinstance(self._optimizer, OnebitLamb):
            self._lamb_moments = LambMoments(self._optimizer, self._place_gradients(), group)

    @torch.no_grad()
    def reduce(self, gradients: Sequence[torch.Tensor]) -> None:
        """Average in place, or leave each rank its own; all skip together."""
        if agree_on_finite(gradients, self._group):
            if self._switch.enable_backward_allreduce:
                average_whole(self._engine, gradients)
            elif self._lamb_moments:
                self._lamb_moments.add(gradients)
        if self._corrects_moments and not self._is_floored:
            for group in self._optimizer.param_groups:
                state = self._optimizer.state[group["params"][0]]
                first_weight = 1 - group["betas"][0] ** state["step"]
                group["lr"] *= self._weigh_second(group, state["step"]) ** 0.5 / first_weight

    @torch.no_grad()
    def finish_step(self) -> None:
        """Make second moments fit for signs as soon as these take the place of gradients, and while they move."""
        if self._switch.enable_backward_allreduce:
            return
        begins, self._is_floored = not self._is_floored, True
        if self._lamb_moments:
            if begins:
                self._lamb_moments.begin()
            else:
                self._lamb_moments.finish_step()
        elif begins or self._moves_second_moments:
            self._raise_small(corrects=begins and self._corrects_moments)

    def _raise_small(self, *, corrects: bool) -> None:
        """Correct second moments for their start at 0, and raise small ones.

        Signs have no zero: a row of the embeddings whose token has not come up yet has a second moment of 0 and would
        be divided by epsilon.
        """
        for group in self._optimizer.param_groups:
            for parameter in group["params"]:
                state = self._optimizer.state[parameter]
                second = state["exp_avg_sq"]
                if corrects:
                    second.div_(self._weigh_second(group, state["step"] - 1))
                second.clamp_(min=_FLOOR * float(second.mean()))

    def _place_gradients(self) -> dict[torch.Tensor, int]:
        """Of each master weight, where its gradient stands among those that the engine hands over."""
        trained = [name for name, parameter in self._engine.module.named_parameters() if parameter.requires_grad]
        return {held.tensor: trained.index(held.segments[0].name) for held in self._state.held}

    @property
    def _corrects_moments(self) -> bool:
        """DeepSpeed's optimizers leave out Adam's correction of moments for their start at 0. A second moment that is
        frozen at a part of its size makes every later step too large.

        LAMB's trust ratio takes such a factor out; 0/1 Adam's second moments go on moving under signs.
        """
        return isinstance(self._optimizer, OnebitAdam)

    @staticmethod
    def _weigh_second(group: dict[str, Any], updates: int) -> float:
        return float(1 - group["betas"][1] ** updates)

    @property
    def _moves_second_moments(self) -> bool:
        return isinstance(self._optimizer, ZeroOneAdam) and not self._optimizer.freeze_key

    @torch.no_grad()
    def finish_training(self) -> None:
        """Make weights that went apart in local steps one again."""
        if self._has_local_steps:
            self._show(self._average_weights())
            self._state.refresh()

    @property
    def _has_local_steps(self) -> bool:
        return isinstance(self._optimizer, ZeroOneAdam) and self._optimizer.freeze_key

    @contextmanager
    def capture(self) -> Iterator[Tensors]:
        """Errors, states and weights of this rank, and the phase.

        Weights, because signs have no zero: rows that pad the vocabulary move too, and no other file holds them. Within
        the block the master weights of replicas that go apart are their mean (collective).
        """
        tensors = {"phase": torch.tensor(self._read_phase(), dtype=torch.int64)}
        for index, held in enumerate(self._state.held):
            for key, value in self._optimizer.state[held.tensor].items():
                if torch.is_tensor(value):
                    tensors[f"{key}:{index}"] = value
        tensors |= {f"{name}:flat": value for name, value in self._list_flat()}
        if not self._has_local_steps:
            yield tensors | {f"weights:{index}": master for index, master in enumerate(self._masters)}
            return
        own = [master.clone() for master in self._masters]
        self._show(self._average_weights())
        try:
            yield tensors | {f"weights:{index}": weights for index, weights in enumerate(own)}
        finally:
            self._show(own)

    @torch.no_grad()
    def restore(self, saved: SavedOwnState, rank: int) -> None:
        """Go on bit for bit; CheckpointError at another number of ranks, whose errors belong to other chunks."""
        if "phase" not in saved.read(0):
            return
        if saved.ranks != self._group.size():
            raise CheckpointError(
                f"the checkpoint holds the unsent rests of {saved.ranks} ranks of a 1-bit optimizer, and this run has "
                f"{self._group.size()}; resume with {saved.ranks} processes"
            )
        own = saved.read(rank)
        self._write_phase(own.pop("phase").tolist())
        # The buffer of momenta first: the states are parts of it.
        for name, value in sorted(own.items(), key=lambda item: not item[0].endswith(":flat")):
            key, index = name.rsplit(":", 1)
            if index == "flat":
                self._put_flat(key, value)
            elif key == "weights":
                self._masters[int(index)].copy_(value)
            else:
                held = self._state.held[int(index)].tensor
                put_state(self._optimizer.state[held], key, value.to(held.device))
        self._state.refresh()

    def _read_phase(self) -> list[int]:
        phase = [int(getattr(self._optimizer, name, False)) for name in _SWITCHES]
        return [*phase, int(self._switch.enable_backward_allreduce), int(self._is_floored)]

    def _write_phase(self, phase: list[int]) -> None:
        *switches, self._switch.enable_backward_allreduce, self._is_floored = (bool(value) for value in phase)
        for name, value in zip(_SWITCHES, switches, strict=True):
            if hasattr(self._optimizer, name):
                setattr(self._optimizer, name, value)

    def _list_flat(self) -> list[tuple[str, torch.Tensor]]:
        """1-bit LAMB keeps its errors, and the end of its momenta's buffer, outside the states."""
        if not isinstance(self._optimizer, OnebitLamb):
            return []
        listed = {
            "momenta": self._optimizer.exp_avg_flat,
            "worker_error": self._optimizer.worker_errors,
            "server_error": self._optimizer.server_errors,
        }
        return [(name, tensors[0]) for name, tensors in listed.items() if tensors]

    def _put_flat(self, name: str, value: torch.Tensor) -> None:
        value = value.to(self._masters[0].device)
        if name == "momenta":
            self._link_momenta(value)
        else:
            listed = self._optimizer.worker_errors if name == "worker_error" else self._optimizer.server_errors
            listed[:] = [value]

    def _link_momenta(self, flat: torch.Tensor) -> None:
        """The momentum of every weight is a part of 1-bit LAMB's one buffer, which it exchanges."""
        optimizer = self._optimizer
        optimizer.exp_avg_flat[:] = [flat]
        tensors = [held.tensor for held in self._state.held]
        sizes = [tensor.numel() for tensor in tensors]
        *parts, rest = flat.split([*sizes, flat.numel() - sum(sizes)])
        for tensor, part in zip(tensors, parts, strict=True):
            optimizer.state[tensor]["exp_avg"] = part.view_as(tensor)
        if 0 in optimizer.dummy_exp_avg:
            optimizer.dummy_exp_avg[0] = rest

    @torch.no_grad()
    def _average_weights(self) -> list[torch.Tensor]:
        means = [master.clone() for master in self._masters]
        for mean in means:
            dist.all_reduce(mean, group=self._group)
        return [mean.div_(self._group.size()) for mean in means]

    @torch.no_grad()
    def _show(self, weights: Sequence[torch.Tensor]) -> None:
        for master, values in zip(self._masters, weights, strict=True):
            master.copy_(values)
