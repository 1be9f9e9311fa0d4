"""Names inside a checkpoints folder: step folders, unfinished saves, and the ``latest`` file."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

from neox_train.files import storage_errors, write_text

MANIFEST_NAME = "manifest.json"
LATEST_NAME = "latest"
UNFINISHED_PREFIX = ".tmp-step_"
DISCARDED_PREFIX = ".tmp-old-"

_STEP_FOLDER = re.compile(r"step_(\d{8,})")


def name_step(step: int) -> str:
    """Folder name of a step: eight digits, more where the number needs them."""
    return f"step_{step:08d}"


def parse_step(name: str) -> int | None:
    """Step number of a folder name; None where it is no step folder (``step_7`` and ``step_000000100`` are none)."""
    match = _STEP_FOLDER.fullmatch(name)
    if match is None or name != name_step(int(match.group(1))):
        return None
    return int(match.group(1))


def list_steps(root: Path) -> list[tuple[int, Path]]:
    """Step folders below ``root``, complete or not, the newest (by number) first."""
    if not Path(root).is_dir():
        return []
    found = [(parse_step(path.name), path) for path in Path(root).iterdir()]
    return sorted(((step, path) for step, path in found if step is not None), reverse=True)


def unfinished_path(root: Path, step: int) -> Path:
    """Where a save of this step is written before it counts."""
    return Path(root) / f"{UNFINISHED_PREFIX}{step:08d}"


def read_latest(root: Path) -> str | None:
    """Folder name that ``latest`` holds; None where the file is absent, empty or unreadable text."""
    try:
        return (Path(root) / LATEST_NAME).read_text(encoding="utf-8").strip() or None
    except (FileNotFoundError, UnicodeDecodeError):
        return None


def write_latest(root: Path, step: int) -> None:
    """Point ``latest`` at a step, atomically. It informs people and tools; the choice of a checkpoint ignores it."""
    write_text(Path(root) / LATEST_NAME, name_step(step) + "\n")


def discard_folder(folder: Path) -> None:
    """Remove a folder in two moves, so that a half-removed checkpoint is never mistaken for a damaged one."""
    doomed = folder.with_name(f"{DISCARDED_PREFIX}{folder.name.lstrip('.')}")
    with storage_errors(folder):
        shutil.rmtree(doomed, ignore_errors=True)
        folder.rename(doomed)
        shutil.rmtree(doomed)
