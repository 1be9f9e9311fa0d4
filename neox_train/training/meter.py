"""Adds up steps between two lines of metrics.jsonl."""

from __future__ import annotations

import math
import resource
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from neox_train.config.architecture import Architecture
from neox_train.monitoring.throughput import flops_per_token, model_flops_utilisation
from neox_train.training.distributed import RankContext
from neox_train.training.step import StepResult

if TYPE_CHECKING:
    from neox_train.config.schema import NeoxConfig


@dataclass(kw_only=True)
class IntervalMeter:
    """Losses and seconds of the steps since the last line."""

    tokens_per_step: int
    world_size: int
    flops_per_token: int
    peak_tflops: float | None
    steps: int = 0
    seconds: float = 0.0
    loss_sum: float = 0.0

    @classmethod
    def from_config(cls, config: NeoxConfig, architecture: Architecture) -> IntervalMeter:
        """A meter for this batch size, architecture and device."""
        return cls(
            tokens_per_step=config.train_batch_size * config.seq_length,
            world_size=config.world_size,
            flops_per_token=flops_per_token(architecture),
            peak_tflops=config.peak_theoretical_tflops,
        )

    def add(self, result: StepResult, seconds: float) -> None:
        """Count one step."""
        self.steps += 1
        self.seconds += seconds
        self.loss_sum += result.loss

    def take(self) -> dict[str, Any]:
        """Speed and mean loss since the last call, which starts a new interval."""
        seconds_per_step = self.seconds / self.steps
        tokens_per_second = self.tokens_per_step / seconds_per_step
        per_device = tokens_per_second / self.world_size
        taken = {
            "mean_loss": self.loss_sum / self.steps,
            "seconds_per_step": seconds_per_step,
            "tokens_per_second": tokens_per_second,
            "tokens_per_second_per_gpu": per_device,
            "mfu": model_flops_utilisation(
                tokens_per_second_per_device=per_device,
                flops_per_token=self.flops_per_token,
                peak_tflops=self.peak_tflops,
            ),
        }
        self.steps, self.seconds, self.loss_sum = 0, 0.0, 0.0
        return taken


def measure_peak_memory_gib(context: RankContext) -> float:
    """Highest memory of this rank so far: allocated by torch on a GPU, resident on a CPU."""
    if context.device.type == "cuda":
        return torch.cuda.max_memory_allocated(context.device) / 2**30
    # Linux hands ru_maxrss on through fork and exec: it may tell the size of the process that started this one.
    status = Path("/proc/self/status")
    if status.is_file():
        (peak_kib,) = (line.split()[1] for line in status.read_text().splitlines() if line.startswith("VmHWM:"))
        return int(peak_kib) / 2**20
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def finite_or_none(value: float | None) -> float | None:
    """The number, or None where JSON has no word for it."""
    return value if value is not None and math.isfinite(value) else None
