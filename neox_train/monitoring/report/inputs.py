"""What the report reads: the files of each run and dataset. A missing or damaged file is noted, never an exception."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from neox_train.config.layout import DatasetFolder, RunFolder
from neox_train.config.reader import read_yaml
from neox_train.errors import UserError
from neox_train.monitoring.metrics import read_metrics

Json = dict[str, Any]


@dataclass(frozen=True)
class RunInputs:
    """The files of one run as read; empty where a file is not there yet."""

    name: str
    dataset: str
    config: Json = field(default_factory=dict)
    metrics: list[Json] = field(default_factory=list)
    finished: Json = field(default_factory=dict)
    trained: Json = field(default_factory=dict)
    memory: Json = field(default_factory=dict)
    ledger: Json = field(default_factory=dict)
    parity: Json = field(default_factory=dict)
    evaluation: Json = field(default_factory=dict)
    provenance: Json = field(default_factory=dict)
    failure: Json = field(default_factory=dict)
    damaged: list[str] = field(default_factory=list)
    """Names of files that are there but cannot be read."""

    def of_kind(self, kind: str) -> list[Json]:
        """Metrics records of one kind (``train``, ``validation``) in order."""
        return [record for record in self.metrics if record.get("kind") == kind]


@dataclass(frozen=True)
class DatasetInputs:
    """The manifest of one dataset; empty where it is not tokenised yet."""

    name: str
    manifest: Json = field(default_factory=dict)
    failure: Json = field(default_factory=dict)
    damaged: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class ReportInputs:
    """Everything on the page."""

    pipeline: str
    """Name of the pipeline file."""
    runs: list[RunInputs]
    datasets: list[DatasetInputs]


def read_inputs(pipeline: str, runs: Mapping[str, str], results: Path) -> ReportInputs:
    """Read the files under ``results`` of ``runs`` (name -> dataset) and of the datasets they name."""
    names = list(dict.fromkeys(runs.values()))
    return ReportInputs(
        pipeline=pipeline,
        runs=[read_run(RunFolder.of(results, name), dataset=dataset) for name, dataset in runs.items()],
        datasets=[read_dataset(DatasetFolder.of(results, name)) for name in names],
    )


def read_run(folder: RunFolder, *, dataset: str) -> RunInputs:
    """Read one run's folder."""
    damaged: list[str] = []
    files = {
        "finished": folder.finished,
        "trained": folder.trained,
        "memory": folder.memory_json,
        "ledger": folder.ledger,
        "parity": folder.parity,
        "evaluation": folder.evaluation,
        "provenance": folder.provenance,
        "failure": folder.failure,
    }
    records = {key: _read(path, _read_json, damaged) for key, path in files.items()}
    config = _read(folder.config_file, _read_config, damaged)
    metrics: list[Json] = []
    try:
        metrics = read_metrics(folder.metrics)
    except (OSError, UnicodeDecodeError):
        damaged.append(folder.metrics.name)
    return RunInputs(name=folder.name, dataset=dataset, config=config, metrics=metrics, damaged=damaged, **records)


def read_dataset(folder: DatasetFolder) -> DatasetInputs:
    """Read one dataset's folder."""
    damaged: list[str] = []
    manifest = _read(folder.manifest, _read_json, damaged)
    failure = _read(folder.failure, _read_json, damaged)
    return DatasetInputs(folder.name, manifest, failure, damaged)


def _read(path: Path, reader: Callable[[Path], Any], damaged: list[str]) -> Json:
    if not path.exists():
        return {}
    try:
        value = reader(path)
    except (OSError, ValueError, UserError):
        value = None
    if isinstance(value, dict):
        return value
    damaged.append(path.name)
    return {}


def _read_json(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


def _read_config(path: Path) -> Any:
    return read_yaml(path).values
