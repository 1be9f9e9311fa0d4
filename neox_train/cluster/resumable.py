"""What the ranks would refuse is refused before a job is queued for them."""

from __future__ import annotations

from pathlib import Path

from neox_train.checkpoint.folders import list_steps
from neox_train.checkpoint.manifest import Manifest, inspect_manifest
from neox_train.checkpoint.resume import check_resume
from neox_train.config.layout import RunFolder
from neox_train.config.schema import NeoxConfig
from neox_train.config.variables import allowed_changes
from neox_train.data.identity import identify_data, is_data_there


def require_resumable(run: RunFolder, config: NeoxConfig) -> None:
    """Raise CheckpointError, one sentence, where the run's newest checkpoint is of another configuration or dataset.

    Only manifests are read: the ranks look at every file, and choose an older checkpoint where one is damaged.
    """
    newest = find_newest(run, config)
    if newest is None or not (config.data_path or config.train_data_paths):
        return
    # A dataset that is not there (yet) contradicts nothing.
    digests = identify_data(config) if is_data_there(config) else newest.digests
    check_resume(newest, config, digests, allowed_changes())


def find_newest(run: RunFolder, config: NeoxConfig) -> Manifest | None:
    """Manifest of the run's newest checkpoint that has one; None where there is none."""
    root = Path(config.save) if config.save else run.checkpoints
    manifests = (inspect_manifest(folder)[0] for _, folder in list_steps(root))
    return next((manifest for manifest in manifests if manifest is not None), None)
