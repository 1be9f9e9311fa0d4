"""Which checkpoints stay: the newest by step number, the protected ones, and everything that is not understood."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from neox_train.checkpoint.folders import discard_folder, list_steps
from neox_train.checkpoint.manifest import inspect_manifest, verify_checkpoint


def prune(
    root: Path, keep_last_n: int | None, protect: Collection[int] = (), *, up_to: int | None = None
) -> list[Path]:
    """Remove complete checkpoints older than the newest ``keep_last_n`` and return what was removed.

    None, 0 and negative numbers keep all. Steps in ``protect`` (``extra_save_iters``) and final checkpoints always
    stay. Incomplete folders neither count nor go. Steps past ``up_to``, the step just saved, neither count nor go
    either: a run that fell back to an older checkpoint has not yet reached them again.
    """
    if keep_last_n is None or keep_last_n <= 0:
        return []
    complete = [
        (step, folder)
        for step, folder in list_steps(root)
        if (up_to is None or step <= up_to) and not verify_checkpoint(folder, deep=False)
    ]
    removed = [folder for step, folder in complete[keep_last_n:] if step not in protect and not _is_final(folder)]
    for folder in removed:
        discard_folder(folder)
    return removed


def _is_final(folder: Path) -> bool:
    manifest, _ = inspect_manifest(folder)
    return manifest is not None and manifest.final
