"""Markers that no longer tell the truth: a stage's marker vouches for files that Snakemake does not know.

Snakemake deletes a rule's declared outputs when the rule fails or runs again, so each stage declares one marker,
written last, and nothing else. When something that a marker vouches for is gone the marker is withdrawn, and the
workflow makes it again with what depends on it. Only presence and sizes are looked at.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from neox_train.cluster.completion import checkpoint_problem
from neox_train.config.layout import DatasetFolder, RunFolder
from neox_train.files import read_json


def withdraw_false_markers(datasets: Iterable[DatasetFolder], runs: Iterable[RunFolder]) -> list[str]:
    """Delete every marker whose files are not all there; one sentence for each."""
    checks: list[tuple[Path, Callable[[], str | None]]] = []
    for dataset in datasets:
        checks.append((dataset.manifest, lambda folder=dataset: dataset_problem(folder)))  # type: ignore[misc]
    for run in runs:
        checks.append((run.estimated, lambda folder=run: estimate_problem(folder)))  # type: ignore[misc]
        checks.append((run.trained, lambda folder=run: training_problem(folder)))  # type: ignore[misc]
        checks.append((run.converted, lambda folder=run: export_problem(folder)))  # type: ignore[misc]
    withdrawn = []
    for marker, find_problem in checks:
        if marker.is_file() and (problem := find_problem()):
            marker.unlink(missing_ok=True)
            withdrawn.append(f"{marker} withdrawn: {problem}; what depends on it is made again")
    return withdrawn


def dataset_problem(folder: DatasetFolder) -> str | None:
    """A shard or the tokenizer is gone or has another size."""
    manifest = _read(folder.manifest)
    if manifest is None:
        return "it cannot be read"
    for split in manifest.get("splits", {}).values():
        for shard in split["shards"]:
            if problem := _file_problem(folder.path / shard["file"], shard.get("bytes")):
                return problem
    return _file_problem(folder.tokenizer)


def estimate_problem(run: RunFolder) -> str | None:
    """The resolved configuration or the estimate is gone."""
    return _first(_file_problem(file) for file in (run.config_file, run.memory_json, run.memory_png))


def training_problem(run: RunFolder) -> str | None:
    """The last checkpoint or the metrics are gone."""
    trained = _read(run.trained)
    if trained is None:
        return "it cannot be read"
    if problem := _first(_file_problem(file) for file in (run.finished, run.metrics)):
        return problem
    return checkpoint_problem(run.path / str(trained.get("checkpoint")), trained.get("manifest_sha256"), deep=False)


def export_problem(run: RunFolder) -> str | None:
    """A file of the exported model, or the parity record, is gone."""
    converted = _read(run.converted)
    if converted is None:
        return "it cannot be read"
    if problem := _file_problem(run.parity):
        return problem
    files = converted.get("files") or {"config.json": None}
    return _first(_file_problem(run.hf / name, _size(entry)) for name, entry in dict(files).items())


def _size(entry: Any) -> int | None:
    if isinstance(entry, dict):
        entry = entry.get("bytes")
    return entry if isinstance(entry, int) else None


def _read(file: Path) -> dict[str, Any] | None:
    try:
        content = read_json(file)
    except ValueError:
        return None
    return content if isinstance(content, dict) else None


def _file_problem(file: Path, size_bytes: int | None = None) -> str | None:
    if not file.is_file():
        return f"{file.name} is gone"
    if size_bytes is not None and file.stat().st_size != size_bytes:
        return f"{file.name} has {file.stat().st_size} bytes, not {size_bytes}"
    return None


def _first(problems: Iterable[str | None]) -> str | None:
    return next((problem for problem in problems if problem), None)
