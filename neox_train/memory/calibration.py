"""The memory model refitted to what a site's runs measured: an offset, and a factor of the activations."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from itertools import combinations
from pathlib import Path
from typing import Any

from neox_train.errors import StorageError
from neox_train.files import read_record, write_json

FILE_NAME = "memory_calibration.json"
SLOPE_LIMIT = 0.2
"""A larger share of the activations is a fault of the model, and not for a factor to hide."""
_SLOPE_RUNS = 3
"""Fewer runs than this fix an offset only."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Calibration:
    """What runs of one profile add to the model; sizes in bytes."""

    profile: str
    offset_bytes: int
    activation_factor: float
    runs: int

    @property
    def is_at_limit(self) -> bool:
        """Whether the runs ask for a larger factor than a fit may have: something is missing in the model, or odd."""
        return abs(self.activation_factor - 1) >= SLOPE_LIMIT - 1e-9

    def apply(self, parts: dict[str, int], *, constant: str) -> dict[str, int]:
        """A phase's parts with the factor on the activations and the offset on the part ``constant``, never below 0."""
        changed = {**parts, constant: max(0, parts[constant] + self.offset_bytes)}
        changed["activations"] = round(self.activation_factor * parts["activations"])
        return changed


@dataclass(frozen=True, slots=True)
class MemoryRun:
    """A run's uncalibrated estimate of what is measured, the activations in it, and the measured peak, in bytes."""

    name: str
    estimated: int
    activations: int
    measured: int

    def predict(self, calibration: Calibration) -> float:
        """The estimate with a calibration."""
        return self.estimated + (calibration.activation_factor - 1) * self.activations + calibration.offset_bytes


def fit_memory(runs: Sequence[MemoryRun], profile: str) -> Calibration:
    """Medians: the slope of what is missing over the activations between any two runs, then the offset.

    One run in three may be odd without moving either. ``runs`` holds at least one.
    """
    missing = {run.name: run.measured - run.estimated for run in runs}
    slopes = [
        (missing[first.name] - missing[second.name]) / (first.activations - second.activations)
        for first, second in combinations(runs, 2)
        if first.activations != second.activations
    ]
    slope = statistics.median(slopes) if slopes and len(runs) >= _SLOPE_RUNS else 0.0
    slope = max(-SLOPE_LIMIT, min(SLOPE_LIMIT, slope))
    offset = statistics.median(missing[run.name] - slope * run.activations for run in runs)
    return Calibration(profile=profile, offset_bytes=round(offset), activation_factor=1 + slope, runs=len(runs))


def judge_left_out(runs: Sequence[MemoryRun], profile: str) -> dict[str, float]:
    """For each run the relative error of a fit to all the others: none is judged by a fit to itself."""
    errors = {}
    for run in runs:
        others = [other for other in runs if other is not run]
        fitted = fit_memory(others, profile) if others else None
        predicted = run.predict(fitted) if fitted else float(run.estimated)
        errors[run.name] = predicted / run.measured - 1
    return errors


def write_calibration(results: Path, calibration: Calibration, runs: Sequence[MemoryRun]) -> Path:
    """Write the fit with the runs behind it, atomically, into the results folder; returns the file."""
    path = results / FILE_NAME
    errors = judge_left_out(runs, calibration.profile)
    listed = [{**asdict(run), "error_left_out": errors[run.name]} for run in runs]
    write_json(path, {**asdict(calibration), "fitted_to": listed})
    return path


def read_calibration(results: Path, profile: str) -> Calibration | None:
    """The results folder's calibration; None where there is none or it is another profile's.

    Raises StorageError where the file says something else.
    """
    path = results / FILE_NAME
    record = read_record(path)
    if record is None or record.get("profile") != profile:
        return None
    try:
        return replace(_parse(record), profile=profile)
    except (KeyError, TypeError, ValueError) as error:
        raise StorageError(
            f"{path} is no calibration ({type(error).__name__}: {error}); remove it, or repeat "
            "`neox-train memory calibrate`"
        ) from error


def _parse(record: dict[str, Any]) -> Calibration:
    factor = float(record["activation_factor"])
    if not 1 - SLOPE_LIMIT <= factor <= 1 + SLOPE_LIMIT:
        raise ValueError(f"activation_factor is {factor}")
    return Calibration(
        profile=str(record["profile"]),
        offset_bytes=int(record["offset_bytes"]),
        activation_factor=factor,
        runs=int(record["runs"]),
    )
