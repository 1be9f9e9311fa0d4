"""What rank 0 says of a start, for whoever follows the job: from which checkpoint, and which it could not use."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from neox_train.cluster.rank_record import list_starts
from neox_train.files import read_record, write_json


def write_start_note(folder: Path, job_id: str, start: int, sentences: Sequence[str]) -> None:
    """Leave the sentences in a job's log folder."""
    write_json(_file(folder, job_id, start), {"sentences": list(sentences)})


def read_start_note(folder: Path, job_id: str, *, after: int) -> tuple[int, list[str]] | None:
    """The newest start of a job and what was said of it; None until one later than ``after`` is told of."""
    starts = [start for start in list_starts(folder, job_id) if start > after]
    note = read_record(_file(folder, job_id, starts[-1])) if starts else None
    return None if note is None else (starts[-1], [str(sentence) for sentence in note.get("sentences", ())])


def _file(folder: Path, job_id: str, start: int) -> Path:
    return folder / f"{job_id}_start{start}_note.json"
