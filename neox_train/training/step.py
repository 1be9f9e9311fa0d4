"""One training step: the micro-batches through forward and backward, then the update."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch

from neox_train.training.compression.seam import find_compression
from neox_train.training.distributed import RankContext, reduce_sum
from neox_train.training.optimizer import set_learning_rate
from neox_train.training.pipeline import measure_pipeline_loss, train_pipeline_batch
from neox_train.training.stop import stop_requested
from neox_train.training.targets import split_windows
from neox_train.training.update import Update, apply_update, is_pipeline

if TYPE_CHECKING:
    from deepspeed import DeepSpeedEngine

Batches = Iterator[np.ndarray] | Iterator[torch.Tensor]


@dataclass(frozen=True, slots=True)
class StepResult:
    """One step as every rank sees it."""

    loss: float
    """Mean over micro-batches and ranks, in double precision of fp32 losses."""
    update: Update
    stop: bool
    """Whether any rank was asked to stop."""


def run_step(
    engine: DeepSpeedEngine, batches: Batches, *, lr: float, context: RankContext, masked_after: int | None = None
) -> StepResult:
    """Take ``gradient_accumulation_steps`` micro-batches and make one update with the learning rate ``lr``.

    ``masked_after`` as in ``split_windows``.
    """
    set_learning_rate(engine.optimizer, lr)
    if is_pipeline(engine):
        mean_loss, made = train_pipeline_batch(engine, batches, masked_after)
        return StepResult(loss=mean_loss, update=made, stop=reduce_sum([float(stop_requested())], context)[0] > 0)
    accumulation_steps = engine.gradient_accumulation_steps()
    total = torch.zeros((), dtype=torch.float64, device=context.device)
    update = None
    for micro_step in range(accumulation_steps):
        loss = forward_loss(engine, next(batches), context, masked_after)
        total += loss.detach()
        engine.backward(loss)
        if micro_step < accumulation_steps - 1:
            engine.step()
        else:
            update = apply_update(engine)
    assert update is not None
    if compression := find_compression(engine):
        compression.finish_step()
    summed, stops = reduce_sum([total.item() / accumulation_steps, float(stop_requested())], context)
    return StepResult(loss=summed / context.world_size, update=update, stop=stops > 0)


@torch.no_grad()
def measure_validation_loss(
    engine: DeepSpeedEngine, batches: Batches, context: RankContext, masked_after: int | None = None
) -> float:
    """Mean loss over every rank's validation batches, without dropout; weights and random streams stay as they are."""
    if is_pipeline(engine):
        return measure_pipeline_loss(engine, list(batches), masked_after)
    engine.eval()
    losses = [float(forward_loss(engine, batch, context, masked_after)) for batch in batches]
    engine.train()
    total, count = reduce_sum([sum(losses), float(len(losses))], context)
    return total / count


def forward_loss(
    engine: DeepSpeedEngine, batch: np.ndarray | torch.Tensor, context: RankContext, masked_after: int | None
) -> torch.Tensor:
    """Mean cross-entropy, fp32, of one micro-batch int64 [micro-batch, seq_length + 1]."""
    windows = torch.as_tensor(batch).to(context.device, non_blocking=True)
    return engine(*split_windows(windows, masked_after))
