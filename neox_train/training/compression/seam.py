"""Where the gradients of replicas meet: the one call of DeepSpeed's engine that a compression takes the place of."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

import torch
import torch.distributed as dist

from neox_train.checkpoint.own_state import OwnState, find_own_state, set_own_state

if TYPE_CHECKING:
    from deepspeed import DeepSpeedEngine

_BUCKET_ELEMENTS = 500_000_000
"""Elements that DeepSpeed's engine reduces at once without ZeRO."""


class GradientCompression(OwnState, Protocol):
    """What replicas exchange in place of the sum of their gradients."""

    def reduce(self, gradients: Sequence[torch.Tensor]) -> None:
        """Replace all accumulated gradients, in place, by those that the update takes (collective)."""

    def finish_step(self) -> None:
        """Called after every update, skipped ones too (collective)."""

    def finish_training(self) -> None:
        """Called after the last update, before its validation and checkpoint (collective)."""


def attach_compression(engine: DeepSpeedEngine, compression: GradientCompression) -> None:
    """Let ``compression`` reduce the gradients of an engine without ZeRO."""
    target: Any = engine

    def reduce(grads: None = None, elements_per_buffer: int = 0) -> None:
        gradients, _ = target._get_gradients_for_reduction()
        compression.reduce(gradients)

    target.buffered_allreduce_fallback = reduce
    set_own_state(engine, compression)


def find_compression(engine: DeepSpeedEngine) -> GradientCompression | None:
    """The compression that is attached."""
    return find_own_state(engine)  # type: ignore[return-value]


@torch.no_grad()
def average_whole(engine: DeepSpeedEngine, gradients: Sequence[torch.Tensor]) -> None:
    """The engine's own sum of whole gradients, in place: in its format, with its divisions (collective)."""
    target: Any = engine
    target._reduce_non_expert_gradients(list(gradients), _BUCKET_ELEMENTS)


@torch.no_grad()
def agree_on_finite(gradients: Sequence[torch.Tensor], group: Any) -> bool:
    """Whether the gradients of every rank are finite; where not, all are made so on every rank, and all skip.

    What a rank has not sent yet, or keeps for itself, must not take up a value that is not finite (collective).
    """
    norm = torch.nn.utils.get_total_norm(gradients)
    flag = norm.isfinite().float()
    dist.all_reduce(flag, op=dist.ReduceOp.MIN, group=group)
    if bool(flag):
        return True
    for gradient in gradients:
        gradient.fill_(torch.nan)
    return False
