"""Where a training starts: the newest complete checkpoint that this configuration may continue, or step 0."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from neox_train.checkpoint.choice import choose_checkpoint
from neox_train.checkpoint.leftovers import clear_leftovers
from neox_train.checkpoint.manifest import read_manifest
from neox_train.checkpoint.resume import check_resume
from neox_train.config.layout import RunFolder
from neox_train.errors import CheckpointError
from neox_train.training.distributed import run_on_main

if TYPE_CHECKING:
    from neox_train.config.schema import NeoxConfig

ALLOW_VARIABLE = "NEOX_TRAIN_ALLOW_CHANGE"
"""Keys that a resumed run may change all the same, separated by commas (``--allow-change``)."""


@dataclass(frozen=True)
class Start:
    """What a training starts from, and the sentences a person should read about it."""

    folder: Path | None
    step: int
    notices: list[str]


def checkpoint_root(config: NeoxConfig, run: RunFolder) -> Path:
    """Folder of the step folders: ``save``, else the run's own."""
    return Path(config.save) if config.save else run.checkpoints


def choose_start(config: NeoxConfig, run: RunFolder, digests: dict[str, str]) -> Start:
    """Choose on rank 0, for all ranks (collective).

    The run's own checkpoints come first; ``load`` counts where there are none. Raises CheckpointError when ``load``
    names another folder without a complete checkpoint, and when the configuration, dataset or tokenizer changed.
    """
    return run_on_main(lambda: _choose(config, run, digests))


def _choose(config: NeoxConfig, run: RunFolder, digests: dict[str, str]) -> Start:
    root = checkpoint_root(config, run)
    notices = [f"{path.name}: a save that did not finish was cleared" for path in clear_leftovers(root)]
    folder, skipped = choose_checkpoint(root)
    notices += [f"checkpoint {path} skipped: {reason}" for path, reason in skipped]
    if folder is None and config.load and Path(config.load).absolute() != root.absolute():
        folder, skipped = choose_checkpoint(Path(config.load))
        notices += [f"checkpoint {path} skipped: {reason}" for path, reason in skipped]
        if folder is None:
            raise CheckpointError(
                f"`load: {config.load}` holds no complete checkpoint; "
                "correct the path, or remove the key to start at step 0"
            )
    if folder is None:
        return Start(None, 0, notices)
    manifest = read_manifest(folder)
    notices += check_resume(manifest, config, digests, _read_allowed_changes())
    return Start(folder, manifest.step, notices)


def _read_allowed_changes() -> set[str]:
    return {key.strip() for key in os.environ.get(ALLOW_VARIABLE, "").split(",") if key.strip()}
