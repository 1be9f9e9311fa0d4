"""Weak scaling of a layout: its speed on more and more GPUs, the batch growing with them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from neox_train.files import atomic_path
from neox_train.memory.plan import RankPlan
from neox_train.memory.throughput.rates import HardwareRates
from neox_train.memory.throughput.step import predict_step

_MOST_GPUS = 4096


def predict_scaling(plans: Sequence[RankPlan], rates: HardwareRates) -> list[tuple[int, float]]:
    """GPUs and predicted tokens/s/GPU, doubling from one replica's up to 4,096; a rank's batch is kept.

    Ends before the first number of GPUs whose network the cluster file says nothing of.
    """
    gpus = plans[0].tensor_parallel_size * len(plans)
    points = []
    replicas = 1
    while gpus * replicas <= _MOST_GPUS:
        step = predict_step([replace(plan, data_parallel_size=replicas) for plan in plans], rates)
        if step is None:
            break
        points.append((gpus * replicas, step.tokens_per_second_per_gpu))
        replicas *= 2
    return points


def draw_scaling(points: Sequence[tuple[int, float]], path: Path, *, title: str, calibrated: bool) -> None:
    """Write a PNG of the points; an uncalibrated prediction says so in its picture."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7.2, 4.2), dpi=120, layout="constrained")
    axes = figure.subplots()
    gpus, speeds = zip(*points, strict=True)
    axes.plot(gpus, speeds, marker="o", color="#1f4e79")
    axes.set_xscale("log", base=2)
    axes.set_xticks(gpus, [f"{count:,}" for count in gpus], rotation=45)
    axes.set_ylim(0, 1.1 * max(speeds))
    axes.set_xlabel("GPUs")
    axes.set_ylabel("predicted tokens/s/GPU" + ("" if calibrated else " (uncalibrated)"))
    axes.set_title(title, loc="left", fontsize=11)
    axes.grid(alpha=0.3)
    with atomic_path(path) as temporary:
        figure.savefig(temporary, format="png")
