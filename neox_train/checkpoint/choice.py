"""Which checkpoint to resume from: the newest complete one, whatever ``latest`` says."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from neox_train.checkpoint.folders import LATEST_NAME, list_steps, read_latest
from neox_train.checkpoint.manifest import verify_checkpoint

Skipped = list[tuple[Path, str]]
Verify = Callable[[Path], list[str]]


def choose_checkpoint(
    root: Path, *, deep: bool = True, verify: Verify | None = None, folders: Sequence[Path] | None = None
) -> tuple[Path | None, Skipped]:
    """The newest complete checkpoint by step number (None where there is none), and each newer folder with its reason.

    Looking changes nothing on disk. ``deep`` compares SHA-256 and not only sizes. ``verify`` replaces the check and
    ``folders``, newest first, the listing, so that several ranks can share the reading.
    """
    check = verify or (lambda folder: verify_checkpoint(folder, deep=deep))
    skipped: Skipped = inspect_latest(Path(root))
    for folder in folders if folders is not None else [path for _, path in list_steps(root)]:
        problems = check(folder)
        if not problems:
            return folder, skipped
        skipped.append((folder, "; ".join(problems)))
    return None, skipped


def inspect_latest(root: Path) -> Skipped:
    """The folder that ``latest`` names, with a reason, where it is not there; else nothing."""
    named = read_latest(root)
    if named is None or (root / named).is_dir():
        return []
    return [(root / named, f"`{LATEST_NAME}` names it, but it is not there")]
