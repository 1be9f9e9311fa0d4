"""Which stages failed since a workflow began: told by the ids in what they leave, not by any clock."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Any

from neox_train.config.layout import FAILURE_NAME, STAGE_NAME
from neox_train.files import find_record, sha256_json
from neox_train.holder import Holder


def known_ids(folders: Iterable[Path]) -> set[str]:
    """Ids of the failures and of the begun stages that stand in the folders of runs and datasets now."""
    records = (find_record(folder / name) for folder in folders for name in (FAILURE_NAME, STAGE_NAME))
    return {_id(record) for record in records if record}


def list_failures(folders: Iterable[Path], known: Collection[str]) -> list[str]:
    """One line for each failure that is not ``known``: who, stage, why, what next.

    A stage that began and has left neither result nor failure was killed; its line names its log.
    """
    lines = []
    for folder in dict.fromkeys(folders):
        failure, begun = find_record(folder / FAILURE_NAME), find_record(folder / STAGE_NAME)
        if failure and _id(failure) not in known:
            lines.append(_line(failure, str(failure.get("sentence"))))
        elif begun and _id(begun) not in known and not _lives(begun):
            lines.append(_line(begun, f"no word of how it ended (killed, or out of memory?){_log(folder, begun)}"))
    return lines


def _line(record: dict[str, Any], why: str) -> str:
    return f"{record.get('subject')}, {record.get('stage')}: {why} (again: {record.get('command')})"


def _log(folder: Path, begun: dict[str, Any]) -> str:
    name = f"{begun.get('stage')}.log"
    found = [file for file in (folder / "logs" / name, folder / name) if file.is_file()]
    return f"; its log: {found[0]}" if found else ""


def _lives(begun: dict[str, Any]) -> bool:
    """Whether the stage's process is known to run on this machine; elsewhere it counts as ended with its workflow."""
    try:
        holder = Holder(**begun["holder"])
    except (KeyError, TypeError):
        return False
    return holder.is_on_this_host() and not holder.is_dead()


def _id(record: dict[str, Any]) -> str:
    return str(record.get("id") or sha256_json(record))
