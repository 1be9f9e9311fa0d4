"""torch's flight recorder in a job: switched on in every rank, its dumps read back without running what they hold.

A dump is a pickle of plain values that torch writes for a rank whose collective timed out (NCCL), or that the stall
watch writes for a rank that makes no progress (any backend).
"""

from __future__ import annotations

import io
import pickle
import re
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from neox_train.config.variables import FLIGHT_PREFIX
from neox_train.errors import UserError

_RECORDS = "2000"
_RING_RENAMED = (2, 9)
_PREFIX = "rank_"
_DUMP = re.compile(rf"{_PREFIX}(\d+)$")


def recorder_folder(job_folder: Path, job_id: str, start: int) -> Path:
    """Where the ranks of one start of a job dump."""
    return job_folder / f"flight-{job_id}-{start}"


def recorder_variables(folder: Path, torch_version: str | None = None) -> dict[str, str]:
    """Variables of every rank: the ring of records, a dump on a time-out, and the file names' common head.

    torch renamed some of them; each name is read by some release from 2.6 on. The ring's old name draws a warning of
    every rank from 2.9 on, so only older releases get it; ``torch_version`` is by default the installed one's.
    """
    head = str(folder / _PREFIX)
    installed = version("torch") if torch_version is None else torch_version
    renamed = tuple(map(int, re.findall(r"\d+", installed)[:2])) >= _RING_RENAMED
    return {
        **({} if renamed else {"TORCH_NCCL_TRACE_BUFFER_SIZE": _RECORDS}),
        "TORCH_FR_BUFFER_SIZE": _RECORDS,
        "TORCH_NCCL_DUMP_ON_TIMEOUT": "1",
        "TORCH_NCCL_DEBUG_INFO_TEMP_FILE": head,
        "TORCH_FR_DUMP_TEMP_FILE": head,
        FLIGHT_PREFIX: head,
    }


@dataclass(frozen=True, slots=True)
class Dump:
    """What one rank's recorder held."""

    rank: int
    entries: list[dict[str, Any]]
    groups: dict[str, dict[str, Any]]
    step: int | None
    """The last step that the rank had finished; None where it kept no note."""


def read_dumps(folder: Path) -> list[Dump]:
    """The dumps of a folder by rank; raises UserError where there is none, or one is not a dump of plain values."""
    files = {int(match.group(1)): file for file in folder.glob(f"{_PREFIX}*") if (match := _DUMP.match(file.name))}
    if not files:
        raise UserError(
            f"{folder} holds no dump of torch's flight recorder ({_PREFIX}0, {_PREFIX}1, ...); give its folder"
        )
    return [_read(rank, file) for rank, file in sorted(files.items())]


def _read(rank: int, file: Path) -> Dump:
    try:
        content = _PlainValues(io.BytesIO(file.read_bytes())).load()
        return Dump(rank, list(content["entries"]), dict(content.get("pg_config") or {}), _read_step(file, rank))
    except (pickle.UnpicklingError, EOFError, KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
        raise UserError(
            f"{file} is no dump of torch's flight recorder ({error}); remove it, or give another folder"
        ) from (error)


def _read_step(file: Path, rank: int) -> int | None:
    note = file.with_name(f"step-{rank}.txt")
    text = note.read_text().strip("\0 \n") if note.is_file() else ""
    return int(text) if text.isdigit() else None


class _PlainValues(pickle.Unpickler):
    """Numbers, text and containers only: a class or function named in the file is refused, so that nothing runs."""

    def find_class(self, module_name: str, global_name: str) -> Any:
        raise pickle.UnpicklingError(f"it names {module_name}.{global_name}, and plain values only are read")
