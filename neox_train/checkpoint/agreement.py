"""Choosing a checkpoint on all ranks at once: they share the reading and get the same answer."""

from __future__ import annotations

from pathlib import Path

from neox_train.checkpoint.choice import Skipped, choose_checkpoint
from neox_train.checkpoint.collective import gather_all, get_rank, get_world_size, raising_the_first, run_on_first
from neox_train.checkpoint.folders import list_steps
from neox_train.checkpoint.leftovers import clear_leftovers
from neox_train.checkpoint.manifest import inspect_file, inspect_manifest


def choose_checkpoint_together(root: Path) -> tuple[Path | None, Skipped]:
    """``choose_checkpoint`` with every byte verified, each rank reading its share of the files (collective).

    Rank 0 first clears what dead saves left behind. A file that one rank cannot see makes the checkpoint incomplete
    for all.
    """
    root = Path(root)
    with raising_the_first():
        run_on_first(lambda: clear_leftovers(root))
        names = run_on_first(lambda: [folder.name for _, folder in list_steps(root)])
    return choose_checkpoint(root, verify=_verify_share, folders=[root / name for name in names])


def _verify_share(folder: Path) -> list[str]:
    manifest, problem = inspect_manifest(folder)
    found = [] if problem is None else [problem]
    if manifest is not None:
        files = sorted(manifest.files.items(), key=lambda item: -item[1].bytes)
        mine = files[get_rank() :: get_world_size()]
        found = [line for name, record in mine if (line := inspect_file(folder, name, record, deep=True)) is not None]
    return sorted({line for lines in gather_all(found) for line in lines})
