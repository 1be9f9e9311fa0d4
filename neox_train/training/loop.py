"""The training loop: steps, validation, metrics, checkpoints, and the stop at a step boundary."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from neox_train.checkpoint.state import TrainerState
from neox_train.config.fp8 import uses_fp8
from neox_train.errors import NonFiniteError
from neox_train.monitoring.metrics import MetricsWriter
from neox_train.training.cadence import last_step, logs_at, saves_at, validates_at
from neox_train.training.compression.seam import find_compression
from neox_train.training.dataset import TrainingData
from neox_train.training.distributed import RankContext, reduce_max
from neox_train.training.finished import PEAK_MEMORY_GIB, SAVE_SECONDS, SECONDS, TEST_LOSS, TRAIN_LOSS
from neox_train.training.fp8_state import FP8_STATE, capture_fp8_state
from neox_train.training.meter import IntervalMeter, finite_or_none, measure_peak_memory_gib
from neox_train.training.nonfinite import SkipCounter, not_finite_at_the_end
from neox_train.training.progress import format_step, say
from neox_train.training.saving import CheckpointKeeper
from neox_train.training.schedule import LearningRateSchedule
from neox_train.training.stall import StallWatch
from neox_train.training.step import StepResult, measure_validation_loss, run_step
from neox_train.training.stop import stop_reason
from neox_train.training.transformer_engine import prove_fp8

if TYPE_CHECKING:
    from deepspeed import DeepSpeedEngine

    from neox_train.config.schema import NeoxConfig

FINISHED = "finished"
STOPPED = "stopped"


@dataclass(kw_only=True)
class TrainingLoop:
    """One training from ``state.step`` to ``train_iters``; the same calls in the same order on every rank."""

    config: NeoxConfig
    context: RankContext
    engine: DeepSpeedEngine
    data: TrainingData
    keeper: CheckpointKeeper
    metrics: MetricsWriter
    meter: IntervalMeter
    state: TrainerState
    saved: Path | None = None
    """Folder of the newest checkpoint."""

    def __post_init__(self) -> None:
        self._first_step = self.state.step + 1
        self._last_step = last_step(self.config)
        self._schedule = LearningRateSchedule.from_config(self.config)
        self._skips = SkipCounter(total=self.state.skipped_steps)
        self._seconds_before = float(self.state.extra.get(SECONDS, 0.0))
        self._started = time.monotonic()
        self._watch = StallWatch(self.context.rank)
        self._masked_after = self.data.document_end if self.config.eod_mask_loss else None

    def run(self) -> str:
        """Train; ``finished`` at the last step, ``stopped`` after a save when a rank was asked to stop."""
        with self._watch:
            return self._run()

    def _run(self) -> str:
        batches = self.data.train_batches(self.config, self.context, self.state.consumed_samples)
        if self.state.step == 0 and saves_at(self.config, 0):
            self._save()
        while self.state.step < self._last_step:
            result = self._step(batches)
            step = self.state.step
            self._watch.beat(step)
            if validates_at(self.config, step):
                self._validate()
            if step == self._last_step:
                self._test()
            if result.stop or saves_at(self.config, step) or step == self._last_step:
                self._save_if_finite(result)
            if result.stop and step < self._last_step:
                self._say(f"stopped after step {step}: {stop_reason() or 'another rank was asked to stop'}")
                return STOPPED
        return FINISHED

    def _step(self, batches: Iterator[np.ndarray]) -> StepResult:
        lr = self._schedule.lr_at(self.state.step - self._skips.total)
        began = time.monotonic()
        result = run_step(self.engine, batches, lr=lr, context=self.context, masked_after=self._masked_after)
        self.meter.add(result, time.monotonic() - began)
        self.state.step += 1
        if self.state.step == self._last_step and (compression := find_compression(self.engine)):
            compression.finish_training()
        self.state.consumed_samples += self.config.train_batch_size
        self._skips.count(
            step=self.state.step,
            applied=result.update.applied,
            loss=result.loss,
            loss_scale=result.update.loss_scale,
            checkpoint=self._describe_saved(),
        )
        self.state.skipped_steps = self._skips.total
        self.state.extra[TRAIN_LOSS] = finite_or_none(result.loss)
        if self.state.step == self._first_step and uses_fp8(self.config):
            self._say(prove_fp8(self.keeper.model, self.config))
        if logs_at(self.config, self.state.step) or result.stop:
            self._log(result, lr)
        return result

    def _log(self, result: StepResult, lr: float) -> None:
        peak = reduce_max(measure_peak_memory_gib(self.context), self.context)
        self.state.extra[PEAK_MEMORY_GIB] = max(peak, self.state.extra.get(PEAK_MEMORY_GIB, 0.0))
        record = {
            "kind": "train",
            "step": self.state.step,
            "loss": finite_or_none(result.loss),
            "lr": lr,
            "grad_norm": finite_or_none(result.update.grad_norm),
            "loss_scale": result.update.loss_scale,
            "skipped_steps": self.state.skipped_steps,
            "consumed_samples": self.state.consumed_samples,
            "consumed_tokens": self.state.consumed_samples * self.config.seq_length,
            **self.meter.take(),
            "peak_memory_gib": peak,
        }
        if self.context.world_size > 1:
            record["communication"] = self.context.traffic.take()
        if self.context.is_main:
            self.metrics.write(record)
            say(format_step(record, train_iters=self._last_step))

    def _validate(self) -> None:
        finite = self._measure("validation", self.data.validation_batches(self.config, self.context))
        self.state.last_validation_loss = finite
        best = self.state.best_validation_loss
        if finite is not None:
            self.state.best_validation_loss = finite if best is None else min(best, finite)

    def _test(self) -> None:
        """The loss over ``test_data_paths``, once, before the last save, which keeps it."""
        batches = self.data.test_batches(self.config, self.context) if self.config.eval_iters else None
        if batches is not None:
            self.state.extra[TEST_LOSS] = self._measure("test", batches)

    def _measure(self, kind: str, batches: Iterator[np.ndarray]) -> float | None:
        """The loss over held-out batches, told and written as a record of ``kind``; None where it is not finite."""
        loss = measure_validation_loss(self.engine, batches, self.context, self._masked_after)
        if self.context.is_main:
            perplexity = math.exp(loss) if loss < 700 else math.inf
            self.metrics.write({"kind": kind, "step": self.state.step, "loss": loss, "perplexity": perplexity})
            say(f"{kind} at step {self.state.step}: loss {loss:.4f} | perplexity {perplexity:.2f}")
        return finite_or_none(loss)

    def _save_if_finite(self, result: StepResult) -> None:
        """Save, unless the weights give a loss that is not finite: the checkpoint before is then the one to keep."""
        if math.isfinite(result.loss):
            self._save(prune=result.update.applied)
        elif self.state.step == self._last_step:
            raise NonFiniteError(not_finite_at_the_end(self.state.step, self._describe_saved()))
        else:
            self._say(f"step {self.state.step} is not saved, its loss is not finite; {self._describe_saved()}")

    def _save(self, *, prune: bool = True) -> None:
        self.state.extra[SECONDS] = self._seconds_before + time.monotonic() - self._started
        if uses_fp8(self.config) and (scales := capture_fp8_state(self.keeper.model)):
            self.state.extra[FP8_STATE] = scales
        began = time.monotonic()
        self.saved = self.keeper.save(self.state, prune=prune)
        seconds = time.monotonic() - began
        # In the checkpoint after this one: the signal before the wall must come early enough for the next save.
        self.state.extra[SAVE_SECONDS] = seconds
        self._watch.beat(self.state.step)
        self._say(f"saved {self.saved} in {seconds:.1f} s")

    def _describe_saved(self) -> str:
        return "there is no checkpoint yet" if self.saved is None else f"{self.saved} is intact"

    def _say(self, message: str) -> None:
        if self.context.is_main:
            say(message)
