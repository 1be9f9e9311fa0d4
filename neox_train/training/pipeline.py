"""Batches through a pipeline's engine, which schedules forward and backward passes by itself."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from neox_train.training.targets import split_windows
from neox_train.training.update import Update, apply_update

if TYPE_CHECKING:
    from deepspeed import DeepSpeedEngine


def train_pipeline_batch(
    engine: DeepSpeedEngine, batches: Iterator[np.ndarray], masked_after: int | None = None
) -> tuple[float, Update]:
    """One global batch through all stages, and the update that ends it.

    The loss is the mean over micro-batches and replicas, the same on every rank.
    """
    from deepspeed.runtime.pipe.schedule import OptimizerStep

    pipeline: Any = engine
    updates: list[Update] = []

    def update(self: DeepSpeedEngine, lr_kwargs: Any = None) -> None:
        updates.append(apply_update(self))

    pipeline._INSTRUCTION_MAP = {**type(pipeline)._INSTRUCTION_MAP, OptimizerStep: update}
    loss = pipeline.train_batch(data_iter=_split(batches, masked_after))
    _let_go(pipeline)
    (made,) = updates
    return float(loss), made


def measure_pipeline_loss(
    engine: DeepSpeedEngine, batches: Sequence[np.ndarray], masked_after: int | None = None
) -> float:
    """Mean loss of the validation batches of all replicas."""
    pipeline: Any = engine
    loss = pipeline.eval_batch(_split(iter(batches), masked_after), num_micro_batches=len(batches))
    _let_go(pipeline)
    pipeline.module.train()
    return float(loss)


def _let_go(pipeline: Any) -> None:
    """Drop the last micro-batch's inputs and logits, which the engine would keep beside the next one's."""
    for buffers in pipeline.pipe_buffers.values():
        buffers[:] = [None] * len(buffers)
    # The loss holds on to the graph, and that to the stage's input and its gradient.
    pipeline.loss = pipeline.loss.detach()


def _split(batches: Iterator[np.ndarray], masked_after: int | None) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """Inputs for the first stage, targets for the last, from int64 [micro-batch, seq_length + 1]."""
    for batch in batches:
        inputs, targets = split_windows(torch.from_numpy(batch), masked_after)
        yield inputs.contiguous(), targets.contiguous()
