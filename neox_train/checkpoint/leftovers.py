"""What a dead save left behind: removed, or finished where only the last rename was missing."""

from __future__ import annotations

import shutil
from pathlib import Path

from neox_train.checkpoint.folders import DISCARDED_PREFIX, UNFINISHED_PREFIX, discard_folder
from neox_train.checkpoint.manifest import verify_checkpoint
from neox_train.files import flush_to_disk, storage_errors


def clear_leftovers(root: Path) -> list[Path]:
    """Clean the temporary folders of dead saves (call it while holding the run's lock) and return them.

    A save whose manifest was already written is complete: where no complete checkpoint stands in its place it gets
    its name, so that a crash between the last two renames loses nothing. All others are removed.
    """
    if not Path(root).is_dir():
        return []
    cleared = []
    with storage_errors(root):
        for path in sorted(Path(root).iterdir()):
            if path.name.startswith(UNFINISHED_PREFIX):
                _finish_or_remove(path)
            elif path.name.startswith(DISCARDED_PREFIX):
                shutil.rmtree(path)
            else:
                continue
            cleared.append(path)
    return cleared


def _finish_or_remove(path: Path) -> None:
    target = path.with_name(path.name.removeprefix(".tmp-"))
    if verify_checkpoint(path) or (target.exists() and not verify_checkpoint(target)):
        shutil.rmtree(path)
        return
    if target.exists():
        discard_folder(target)
    path.rename(target)
    flush_to_disk(target.parent)
