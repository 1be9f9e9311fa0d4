"""What a plan's reader must know beside its table, one sentence a line."""

from __future__ import annotations

from neox_train.config.architecture import Architecture
from neox_train.config.cluster import Cluster
from neox_train.config.fp8 import uses_fp8
from neox_train.config.parameters import count_parameters
from neox_train.config.schema import NeoxConfig
from neox_train.memory.layout_compression import word_compression
from neox_train.memory.search.budget import suggest_tokens
from neox_train.memory.search.search import Choice
from neox_train.memory.search.table import Row
from neox_train.memory.throughput.rates import read_rates


def list_notes(
    best: Row, base: NeoxConfig, cluster: Cluster, *, steps: int, deadline: int | None, allowed: frozenset[str]
) -> list[str]:
    """Batch and tokens, jobs, calibration, precision, and a deadline in seconds that nothing meets."""
    choice, cost, _ = best
    parameters = count_parameters(Architecture.from_config(base))
    tokens = steps * base.train_batch_size * base.seq_length
    notes = [
        f"global batch {base.train_batch_size} sequences of {base.seq_length}; {steps:,} steps are "
        f"{tokens / 1e9:.1f}B tokens, {tokens / parameters:.1f} a parameter "
        f"(20 a parameter, {suggest_tokens(parameters) / 1e9:.1f}B, spend training compute best)",
        f"a job ends at {cluster.time_limit_minutes} minutes: {cost.jobs} jobs, {cost.jobs - 1} of them requeued; "
        "waiting, validation and saving are not counted",
    ]
    if not choice.step.calibrated:
        notes.append(
            f"uncalibrated: the rates of {cluster.name} were not measured there (docs/planning.md has the errors)"
        )
    rates = read_rates(cluster, choice.layout.plan.precision)
    if rates is not None and (word := word_compression(choice.layout.plan, choice.step, rates)):
        notes.append(word)
    notes += _note_precision(choice, base, cluster, allowed)
    if deadline is not None and cost.seconds > deadline:
        notes.append(f"nothing meets the deadline: the fastest takes {cost.days:.1f} days; allow more nodes")
    return notes


def _note_precision(choice: Choice, base: NeoxConfig, cluster: Cluster, allowed: frozenset[str]) -> list[str]:
    """What was not allowed to change, and what a change of number formats asks of the user."""
    notes = []
    if choice.layout.precision.keys:
        keys = ", ".join(f"{key}: {str(value).lower()}" for key, value in choice.layout.precision.keys)
        notes.append(f"number formats change ({keys}): compare losses with the configuration's own before a long run")
    elif "precision" not in allowed:
        own = "FP8" if uses_fp8(base) else base.precision
        notes.append(f"precision stays {own}; --allow precision,optimizer searches number formats too")
    peaks = cluster.gpu.peak_tflops if cluster.gpu else None
    if choice.layout.plan.fp8 and (peaks is None or peaks.fp8 is None):
        notes.append("FP8 is predicted as 16 bits: the cluster file does not say gpu.peak_tflops.fp8")
    return notes
