"""metrics.jsonl: one JSON object a line, the source of every curve.

A training line is written every ``log_interval`` steps, at every checkpoint and at the last step. ``loss`` is that
step's own loss, in full precision; ``mean_loss`` is the mean over the steps since the line before.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from neox_train.files import make_folder, storage_errors, write_text

Record = dict[str, Any]


class MetricsWriter:
    """Appends records, each flushed whole, so that a killed run leaves at most one torn last line."""

    def __init__(self, path: Path) -> None:
        self.path = Path(path)
        make_folder(self.path.parent)

    def write(self, record: Mapping[str, Any]) -> None:
        """Append one record with the wall-clock ``time``; a number that is not finite is written as null."""
        line = json.dumps({**_finite(record), "time": time.time()}, allow_nan=False)
        with storage_errors(self.path), open(self.path, "a", encoding="utf-8") as stream:
            stream.write(line + "\n")


def read_metrics(path: Path) -> list[Record]:
    """Every whole record of a metrics file, in order; a torn last line is left out; none where there is no file."""
    return list(_whole_records(path))


def trim_metrics(path: Path, last_step: int) -> int:
    """Cut the records after ``last_step`` (and a torn last line), atomically; returns how many were cut.

    A resumed run does those steps again, so that no step is lost or doubled.
    """
    path = Path(path)
    if not path.exists():
        return 0
    kept = [record for record in _whole_records(path) if record["step"] <= last_step]
    text = "".join(json.dumps(record) + "\n" for record in kept)
    cut = len(path.read_text(encoding="utf-8", errors="replace").splitlines()) - len(kept)
    if cut:
        write_text(path, text)
    return cut


def last_record(path: Path, kind: str) -> Record | None:
    """The newest record of a kind (``train``, ``validation``), or None."""
    found = None
    for record in _whole_records(path):
        if record["kind"] == kind:
            found = record
    return found


def _whole_records(path: Path) -> Iterator[Record]:
    try:
        lines = Path(path).read_text(encoding="utf-8", errors="replace").splitlines()
    except FileNotFoundError:
        return
    for line in lines:
        try:
            record = json.loads(line)
        except json.JSONDecodeError:
            continue
        if isinstance(record, dict) and "step" in record and "kind" in record:
            yield record


def _finite(record: Mapping[str, Any]) -> Record:
    return {
        key: None if isinstance(value, float) and not math.isfinite(value) else value for key, value in record.items()
    }
