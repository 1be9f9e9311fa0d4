"""Markers that no longer tell the truth: a stage's marker vouches for files that Snakemake does not know.

Snakemake deletes a rule's declared outputs when the rule fails or runs again, so each stage declares one marker,
written last, and nothing else. When something that a marker vouches for is gone, the workflow makes the marker again
with what depends on it. Only presence and sizes are looked at, and nothing is changed here: a dry run looks too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from neox_train.cluster.completion import export_stands_in, lost_checkpoint_notice, recorded_problem
from neox_train.config.layout import DatasetFolder, RunFolder
from neox_train.config.pipeline import DatasetSpec
from neox_train.files import find_record


def find_false_markers(
    datasets: Iterable[DatasetFolder], runs: Iterable[RunFolder], specs: Mapping[str, DatasetSpec] | None = None
) -> dict[Path, str]:
    """Every marker whose files are not all there, or of a dataset made from another entry, with what is wrong.

    ``specs`` are the pipeline file's entries by dataset: Snakemake itself knows of a changed one only where it made the
    dataset, and not in a copied results folder.
    """
    entries = specs or {}
    checks: list[tuple[Path, Callable[[], str | None]]] = []
    for dataset in datasets:
        checks.append((dataset.tokenized, lambda folder=dataset: dataset_problem(folder, entries.get(folder.name))))  # type: ignore[misc]
    for run in runs:
        checks.append((run.estimated, lambda folder=run: estimate_problem(folder)))  # type: ignore[misc]
        checks.append((run.trained, lambda folder=run: training_problem(folder)))  # type: ignore[misc]
        checks.append((run.converted, lambda folder=run: conversion_problem(folder)))  # type: ignore[misc]
    problems = ((marker, find_problem()) for marker, find_problem in checks if marker.is_file())
    return {marker: problem for marker, problem in problems if problem}


def list_losses(runs: Iterable[RunFolder]) -> list[str]:
    """One sentence for each trained run that has its export and no longer its last checkpoint, or lost its metrics."""
    notices = []
    for run in runs:
        if (record := find_record(run.trained)) is None:
            continue
        if notice := lost_checkpoint_notice(run, record):
            notices.append(notice)
        if not run.metrics.is_file():
            notices.append(f"run {run.name}: {run.metrics.name} is gone; the training is not repeated for its curves")
    return notices


def dataset_problem(folder: DatasetFolder, spec: DatasetSpec | None = None) -> str | None:
    """A shard, the tokenizer or the manifest is gone or another than the marker and the entry name."""
    marker, manifest = find_record(folder.tokenized), find_record(folder.manifest)
    if marker is None:
        return "it cannot be read"
    if manifest is None:
        return _file_problem(folder.manifest) or f"{folder.manifest.name} cannot be read"
    if manifest.get("digest") != marker.get("digest"):
        return f"{folder.manifest.name} is of other tokens"
    if spec is not None and (made_from := manifest.get("spec")) is not None and not spec.is_of(made_from):
        return "the dataset's entry in the pipeline file changed"
    for split in manifest.get("splits", {}).values():
        for shard in split["shards"]:
            if problem := _file_problem(folder.path / shard["file"], shard.get("bytes")):
                return problem
    return _file_problem(folder.tokenizer)


def estimate_problem(run: RunFolder) -> str | None:
    """The resolved configuration or the estimate is gone."""
    return _first(_file_problem(file) for file in (run.config_file, run.memory_json, run.memory_png))


def training_problem(run: RunFolder) -> str | None:
    """The trainer's record is gone, or the last checkpoint is and no export stands in for it.

    Metrics are no reason: only the whole training again would bring them back.
    """
    trained = find_record(run.trained)
    if trained is None:
        return "it cannot be read"
    if problem := _file_problem(run.finished):
        return problem
    problem = recorded_problem(run, trained, deep=False)
    return None if problem and export_stands_in(run, trained) else problem


def conversion_problem(run: RunFolder) -> str | None:
    """A file of the exported model, or the parity record, is gone."""
    converted = find_record(run.converted)
    if converted is None:
        return "it cannot be read"
    if problem := _file_problem(run.parity):
        return problem
    files = converted.get("files") or {"config.json": None}
    if not isinstance(files, dict):
        return "its list of files cannot be read"
    return _first(_file_problem(run.hf / name, _size(entry)) for name, entry in files.items())


def _size(entry: Any) -> int | None:
    if isinstance(entry, dict):
        entry = entry.get("bytes")
    return entry if isinstance(entry, int) else None


def _file_problem(file: Path, size_bytes: int | None = None) -> str | None:
    if not file.is_file():
        return f"{file.name} is gone"
    if size_bytes is not None and file.stat().st_size != size_bytes:
        return f"{file.name} has {file.stat().st_size} bytes, not {size_bytes}"
    return None


def _first(problems: Iterable[str | None]) -> str | None:
    return next((problem for problem in problems if problem), None)
