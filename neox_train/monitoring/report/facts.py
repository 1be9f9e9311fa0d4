"""The figures of one run that the page shows, gathered from its files; None where a figure is not known yet."""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from typing import Any

from neox_train.monitoring.quantities import is_number
from neox_train.monitoring.report.inputs import Json, RunInputs
from neox_train.monitoring.report.restarts import list_attempts

COLOURS = 8
"""Colour slots of the page's palette; more runs than that share colours."""


@dataclass(frozen=True)
class RunFacts:
    """Figures of one run. Memory in GiB a process, time in seconds, MFU as a share."""

    name: str
    dataset: str
    scored_on: tuple[str, ...]
    """Dataset, split and bytes of the held-out text: only scores on the same text compare."""
    colour: int
    status: str
    architecture: str
    parallelism: str
    parameters: float | None
    tokens: float | None
    steps: float | None
    train_iters: float | None
    validation_loss: float | None
    test_loss: float | None
    """On ``test_data_paths``, after the last step."""
    bits_per_byte: float | None
    unigram_bits_per_byte: float | None
    xz_bits_per_byte: float | None
    tokens_per_second: float | None
    device: str
    mfu: float | None
    estimated_gib: float | None
    compared_gib: float | None
    """What of the estimate ``measured_gib`` measures: torch's tensors on a GPU, the process on a CPU."""
    measured_gib: float | None
    training_seconds: float | None
    wall_seconds: float | None
    attempts: list[Json]

    @property
    def memory_error(self) -> float | None:
        """(estimate - measured) / measured."""
        if self.compared_gib is None or not self.measured_gib:
            return None
        return self.compared_gib / self.measured_gib - 1


def gather_facts(run: RunInputs, index: int) -> RunFacts:
    """Figures of ``run``, the ``index``-th of the page."""
    train = run.of_kind("train")
    last = train[-1] if train else {}
    tasks = mapping(run.evaluation, "tasks")
    attempts = list_attempts(run)
    return RunFacts(
        name=run.name,
        dataset=run.dataset,
        scored_on=tuple(str(run.evaluation.get(key)) for key in ("dataset", "split", "bytes")),
        colour=index % COLOURS,
        status=describe_status(run),
        architecture=describe_architecture(run.config),
        parallelism=describe_parallelism(run.config),
        parameters=number(run.memory, "parameters"),
        tokens=number(run.finished, "consumed_tokens", number(last, "consumed_tokens")),
        steps=number(run.finished, "step", number(last, "step")),
        train_iters=number(run.config, "train_iters"),
        validation_loss=number(run.finished, "validation_loss", _last_value(run.of_kind("validation"), "loss")),
        test_loss=number(run.finished, "test_loss", _last_value(run.of_kind("test"), "loss")),
        bits_per_byte=number(mapping(tasks, "held_out"), "bits_per_byte"),
        unigram_bits_per_byte=number(mapping(tasks, "unigram"), "bits_per_byte"),
        xz_bits_per_byte=number(mapping(tasks, "xz"), "bits_per_byte"),
        tokens_per_second=_median(train, "tokens_per_second_per_gpu"),
        device=str(mapping(run.provenance, "profile").get("device", "cpu")),
        mfu=_median(train, "mfu"),
        estimated_gib=number(run.memory, "total_gib"),
        compared_gib=number(run.memory, "measurable_gib", number(run.memory, "total_gib")),
        measured_gib=number(run.finished, "peak_memory_gib", _highest(train, "peak_memory_gib")),
        training_seconds=number(run.finished, "seconds", _metrics_seconds(run.metrics)),
        wall_seconds=_wall_seconds(attempts),
        attempts=attempts,
    )


def describe_status(run: RunInputs) -> str:
    """How far a run has come, in a few words."""
    if run.failure:
        return f"failed: {run.failure.get('stage', 'unknown stage')}"
    if run.evaluation:
        return "evaluated"
    if run.parity:
        return "exported"
    if run.finished or run.trained:
        return "trained"
    if run.metrics:
        return "training"
    if run.memory:
        return "estimated"
    return "not started"


def describe_architecture(config: Json) -> str:
    """Layers, width, heads and residual form of a resolved configuration; empty without one."""
    layers, width, heads = (config.get(key) for key in ("num_layers", "hidden_size", "num_attention_heads"))
    if layers is None or width is None:
        return ""
    residual = "parallel residual" if config.get("gpt_j_residual") else "serial residual"
    tied = "untied" if config.get("no_weight_tying") else "tied"
    return f"{layers} layers × {width}, {heads} heads, {residual}, {tied} embeddings"


def describe_parallelism(config: Json) -> str:
    """Precision, number of processes, ZeRO stage and global batch of a resolved configuration."""
    parts = []
    if config.get("precision"):
        parts.append(str(config["precision"]))
    if is_number(config.get("world_size")):
        size = config["world_size"]
        parts.append(f"{size} process{'es' if size != 1 else ''}")
    if config.get("zero_stage") is not None:
        parts.append(f"ZeRO {config['zero_stage']}")
    if is_number(config.get("train_batch_size")) and is_number(config.get("seq_length")):
        parts.append(f"global batch {config['train_batch_size']} × {config['seq_length']} tokens")
    return ", ".join(parts)


def number(record: Json, key: str, otherwise: float | None = None) -> float | None:
    """A finite number of a record, or ``otherwise``."""
    value = record.get(key)
    return value if is_number(value) else otherwise


def mapping(record: Json, key: str) -> Json:
    """A mapping of a record, or an empty one."""
    value: Any = record.get(key)
    return value if isinstance(value, dict) else {}


def _values(records: list[Json], key: str) -> list[float]:
    return [record[key] for record in records if is_number(record.get(key))]


def _last_value(records: list[Json], key: str) -> float | None:
    return next(iter(reversed(_values(records, key))), None)


def _highest(records: list[Json], key: str) -> float | None:
    return max(_values(records, key), default=None)


def _median(records: list[Json], key: str) -> float | None:
    """Median over all but the first record, which pays for start-up."""
    values = _values(records, key)
    return statistics.median(values[1:] or values) if values else None


def _wall_seconds(attempts: list[Json]) -> float | None:
    """Time that the attempts' ranks ran, start-up included, the queue not; None while none has ended."""
    ran = [seconds for attempt in attempts if (seconds := ran_seconds(attempt)) is not None]
    return sum(ran) if ran else None


def ran_seconds(attempt: Json) -> float | None:
    """Time from the first rank's beginning to the end, without the queue between two starts of one job."""
    ended = attempt.get("ended")
    began = attempt.get("resumed") or attempt.get("started")
    if not is_number(ended) or not is_number(began):
        return None
    earlier = attempt.get("starts")
    starts = [start for start in earlier if isinstance(start, dict)] if isinstance(earlier, list) else []
    spans = [(start.get("began"), start.get("ended")) for start in starts]
    return ended - began + sum(end - start for start, end in spans if is_number(start) and is_number(end))


def _metrics_seconds(records: list[Json]) -> float | None:
    times = _values(records, "time")
    return times[-1] - times[0] if len(times) > 1 else None
