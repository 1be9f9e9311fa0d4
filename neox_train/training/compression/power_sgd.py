"""PowerSGD: low-rank factors of every matrix's gradient travel, and what they miss is added to the next gradient.

The algorithm is torch's communication hook, given one bucket of all gradients in fp32.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch.distributed.algorithms.ddp_comm_hooks import powerSGD_hook as power_sgd

from neox_train.checkpoint.own_state import SavedOwnState, Tensors
from neox_train.training.compression.seam import agree_on_finite

_BUCKET = 0
_EPSILON = 1e-8
"""Keeps the factors of a gradient of zeros finite."""


class PowerSGD:
    """Averages gradients over ``group``; whole ones for the first ``start_step`` reductions."""

    def __init__(self, *, rank: int, start_step: int, device: torch.device, group: Any) -> None:
        logging.getLogger(power_sgd.__name__).setLevel(logging.ERROR)
        self._group, self._device = group, device
        self._state = power_sgd.PowerSGDState(
            process_group=group,
            matrix_approximation_rank=rank,
            start_powerSGD_iter=start_step,
            orthogonalization_epsilon=_EPSILON,
        )

    def begin(self) -> None:
        """Send factors from the next reduction on."""
        self._state.iter = self._state.start_powerSGD_iter

    @torch.no_grad()
    def reduce(self, gradients: Sequence[torch.Tensor]) -> None:
        """Average in place; a step that any rank's gradients make it skip leaves no trace in the factors."""
        if not agree_on_finite(gradients, self._group):
            return
        bucket = _Bucket(gradients)
        averaged = power_sgd.powerSGD_hook(self._state, bucket).wait()
        for gradient, values in zip(gradients, bucket.split(averaged), strict=True):
            gradient.copy_(values)

    def finish_step(self) -> None:
        """Nothing is left to do."""

    def finish_training(self) -> None:
        """Nothing is left to do."""

    @contextmanager
    def capture(self) -> Iterator[Tensors]:
        """Reductions done, the residual this rank has not sent, and the factors."""
        state = self._state
        tensors = {"reductions": torch.tensor(state.iter, dtype=torch.int64)}
        if _BUCKET in state.error_dict:
            tensors["residual"] = state.error_dict[_BUCKET]
            tensors["left_factors"] = state.p_memory_dict[_BUCKET]
            tensors["right_factors"] = state.q_memory_dict[_BUCKET]
        yield tensors

    def restore(self, saved: SavedOwnState, rank: int) -> None:
        """Go on with the own residual; at another number of ranks with the mean of all, whose average is the same."""
        first = saved.read(0)
        state = self._state
        if "reductions" not in first:
            return
        state.iter = int(first["reductions"])
        if "residual" not in first:
            return
        if saved.ranks == self._group.size():
            residual = saved.read(rank)["residual"]
        else:
            residual = sum(saved.read(other)["residual"] for other in range(saved.ranks)) / saved.ranks
        state.error_dict[_BUCKET] = residual.to(self._device)
        state.p_memory_dict[_BUCKET] = first["left_factors"].to(self._device)
        state.q_memory_dict[_BUCKET] = first["right_factors"].to(self._device)


class _Bucket:
    """All gradients in one fp32 buffer, with the methods of torch's ``GradBucket`` that the hook calls."""

    def __init__(self, gradients: Sequence[torch.Tensor]) -> None:
        self._shapes = [gradient.shape for gradient in gradients]
        self._flat = torch.cat([gradient.reshape(-1).float() for gradient in gradients])

    def index(self) -> int:
        return _BUCKET

    def is_last(self) -> bool:
        return True

    def buffer(self) -> torch.Tensor:
        return self._flat

    def gradients(self) -> list[torch.Tensor]:
        return self.split(self._flat)

    def split(self, flat: torch.Tensor) -> list[torch.Tensor]:
        """The part of each gradient, in its shape."""
        parts = flat.split([shape.numel() for shape in self._shapes])
        return [part.view(shape) for part, shape in zip(parts, self._shapes, strict=True)]
