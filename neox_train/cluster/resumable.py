"""What the ranks would refuse is refused before a job is queued for them."""

from __future__ import annotations

from pathlib import Path

from neox_train.checkpoint.folders import list_steps
from neox_train.checkpoint.manifest import Manifest, inspect_manifest
from neox_train.checkpoint.resume import check_resume, check_weights, checkpoint_root, other_root, word_missing
from neox_train.config.layout import RunFolder
from neox_train.config.schema import NeoxConfig
from neox_train.config.variables import allowed_changes
from neox_train.data.identity import identify_data, is_data_there
from neox_train.errors import CheckpointError


def require_resumable(run: RunFolder, config: NeoxConfig) -> None:
    """Raise CheckpointError, one sentence, where the run's newest checkpoint is of another configuration or dataset.

    Only manifests are read: the ranks look at every file, and choose an older checkpoint where one is damaged.
    """
    _require_same(find_newest(run, config), config)


def require_start(run: RunFolder, config: NeoxConfig) -> None:
    """The same, and where the run has no checkpoint yet of the one it begins with: ``load``'s, which must be there.

    Asked when the training starts: until then another run may still write what ``load`` names.
    """
    newest = find_newest(run, config)
    other = other_root(config, run)
    if newest is None and other is not None:
        newest = _newest_below(other)
        if newest is None:
            raise CheckpointError(word_missing(config))
        if config.finetune:
            check_weights(newest, config, newest.digests)
            return
    _require_same(newest, config)


def _require_same(newest: Manifest | None, config: NeoxConfig) -> None:
    if newest is None or not (config.data_path or config.train_data_paths):
        return
    # A dataset that is not there (yet) contradicts nothing.
    digests = identify_data(config) if is_data_there(config) else newest.digests
    check_resume(newest, config, digests, allowed_changes())


def find_newest(run: RunFolder, config: NeoxConfig) -> Manifest | None:
    """Manifest of the run's newest checkpoint that has one; None where there is none."""
    return _newest_below(checkpoint_root(config, run))


def _newest_below(root: Path) -> Manifest | None:
    manifests = (inspect_manifest(folder)[0] for _, folder in list_steps(root))
    return next((manifest for manifest in manifests if manifest is not None), None)
