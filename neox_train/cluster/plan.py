"""The table shown before anything is submitted: what each run asks of the cluster, and what is done already."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from neox_train.cluster.cancellation import is_cancelled
from neox_train.cluster.ledger import Ledger
from neox_train.config.architecture import Architecture
from neox_train.config.cluster import Cluster
from neox_train.config.hardware import uses_fp8
from neox_train.config.layout import RunFolder
from neox_train.config.schema import NeoxConfig
from neox_train.errors import ConfigError
from neox_train.files import find_record
from neox_train.memory.plan import plan_stages
from neox_train.memory.throughput.rates import read_rates
from neox_train.memory.throughput.step import StepTime, predict_step
from neox_train.monitoring.metrics import last_record
from neox_train.monitoring.quantities import format_seconds
from neox_train.monitoring.throughput import flops_per_token

_ASSUMED_MFU = 0.35
"""Between what untuned and well tuned trainings of this size reach; the estimate says that it is uncalibrated."""
_ASSUMED_VOCABULARY = 50_304


@dataclass(frozen=True)
class PlannedRun:
    """One run of the table; ``seconds`` is the training time still to come, None where nothing tells it."""

    name: str
    nodes: int
    processes: int
    steps: int
    seconds: float | None
    basis: str
    memory: str
    status: str

    @property
    def device_hours(self) -> float | None:
        """Hours of all its GPUs (of all its processes without GPUs)."""
        return None if self.seconds is None else self.seconds * self.processes / 3600


def plan_run(
    config: NeoxConfig, cluster: Cluster, nodes: int, run: RunFolder, *, is_marker_true: bool = True
) -> PlannedRun:
    """What the run still needs; ``is_marker_true`` says whether trained.json, where there is one, counts."""
    steps = config.train_iters or 0
    status = _status(run, is_marker_true)
    seconds: float | None = 0.0
    basis = ""
    if status != "done":
        record = last_record(run.metrics, "train") or {}
        done = min(int(record.get("step", 0)), steps)
        seconds, basis = _seconds(config, cluster, steps - done, record.get("seconds_per_step"))
    memory = find_record(run.memory_json) or {}
    verdict = f"{memory['verdict']} ({memory['fraction']:.0%})" if "verdict" in memory else "not yet"
    processes = nodes * cluster.processes_per_node
    return PlannedRun(run.name, nodes, processes, steps, seconds, basis, verdict.replace("_", " "), status)


def _seconds(
    config: NeoxConfig, cluster: Cluster, steps: int, measured_seconds_per_step: float | None
) -> tuple[float | None, str]:
    if measured_seconds_per_step:
        return steps * measured_seconds_per_step, "measured"
    peak = cluster.gpu.peak_tflops if cluster.device == "cuda" and cluster.gpu else None
    rate = getattr(peak, config.precision, None) if peak else None
    if rate is None:
        return None, "not known"
    sized = config if config.vocab_size else config.with_vocab_size(_ASSUMED_VOCABULARY)
    step = _predict(sized, cluster) if cluster.rates.mfu is None else None
    if step is not None:
        has_rate = peak is not None and peak.fp8 is not None
        basis = "predicted as for 16 bits" if uses_fp8(sized) and not has_rate else "predicted"
        return steps * step.total, basis if step.calibrated else f"uncalibrated, {basis}"
    tokens = steps * config.train_batch_size * config.seq_length
    operations = tokens * flops_per_token(Architecture.from_config(sized))
    mfu = cluster.rates.mfu or _ASSUMED_MFU
    basis = f"MFU {mfu:.0%}" if cluster.rates.mfu and cluster.rates.measured else f"uncalibrated, MFU {mfu:.0%}"
    return operations / (rate * 1e12 * mfu * config.world_size), basis


def _predict(config: NeoxConfig, cluster: Cluster) -> StepTime | None:
    """A step's predicted time; None where the cluster file has no rates for it, or the layout is not covered."""
    rates = read_rates(cluster, config.precision or "bfloat16")
    if rates is None:
        return None
    try:
        return predict_step(plan_stages(config, cluster), rates)
    except ConfigError:
        return None


def _status(run: RunFolder, is_marker_true: bool) -> str:
    if is_marker_true and run.trained.is_file():
        return "done"
    if is_cancelled(run):
        return "cancelled"
    last = Ledger(run.ledger).last
    if last is None:
        return "new"
    if last.is_open and last.executor == "slurm":
        return f"attach to job {last.job_id or last.name}"
    return "continue" if any(run.checkpoints.glob("step_*")) else "again"


def render_plan(plan: Sequence[PlannedRun], cluster: Cluster) -> list[str]:
    """The table as lines of plain text, with its sum."""
    unit = "GPU-hours" if cluster.device == "cuda" else "process-hours"
    header = ("run", "nodes", "processes", "steps", "training time", unit, "memory", "status")
    rows = [header, *(_row(run) for run in plan)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(header))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    lines.insert(1, "  ".join("-" * width for width in widths))
    known = [run.device_hours for run in plan if run.device_hours is not None]
    missing = len(plan) - len(known)
    total = f"{unit} to come: {sum(known):.1f}" if known else f"{unit} to come: not known before a first training"
    if known and missing:
        total += f", and {missing} run{'s' if missing > 1 else ''} not known yet"
    return [*lines, total]


def _row(run: PlannedRun) -> tuple[str, ...]:
    time = "?" if run.seconds is None else format_seconds(run.seconds) + (f" ({run.basis})" if run.basis else "")
    hours = "?" if run.device_hours is None else f"{run.device_hours:.1f}"
    return (run.name, str(run.nodes), str(run.processes), str(run.steps), time, hours, run.memory, run.status)
