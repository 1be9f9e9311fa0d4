"""Where a training starts: the newest complete checkpoint that this configuration may continue, or step 0."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from neox_train.checkpoint.agreement import choose_checkpoint_together
from neox_train.checkpoint.choice import choose_checkpoint
from neox_train.checkpoint.manifest import read_manifest
from neox_train.checkpoint.resume import check_resume, check_weights, checkpoint_root, other_root, word_missing
from neox_train.config.layout import RunFolder
from neox_train.config.variables import allowed_changes
from neox_train.data.neox_blend import tell_other_epochs
from neox_train.data.order import Order
from neox_train.errors import CheckpointError
from neox_train.training.distributed import run_on_main

if TYPE_CHECKING:
    from neox_train.config.schema import NeoxConfig


@dataclass(frozen=True)
class Start:
    """What a training starts from, and the sentences a person should read about it."""

    folder: Path | None
    step: int
    notices: list[str]
    weights_only: bool = False
    """Whether ``folder`` gives the weights and nothing else, for ``finetune``."""

    @property
    def resumed(self) -> Path | None:
        """The checkpoint that goes on; None where the training begins."""
        return None if self.weights_only else self.folder

    def describe(self) -> list[str]:
        """The notices, then the checkpoint; nothing of a start at step 0 without any."""
        how = "beginning with the weights of" if self.weights_only else "going on from"
        return self.notices + ([f"{how} {self.folder}"] if self.folder else [])


def choose_start(config: NeoxConfig, run: RunFolder, digests: dict[str, str], order: Order | None = None) -> Start:
    """Choose for all ranks, which share the reading (collective).

    The run's own checkpoints come first; ``load`` counts where there are none. Raises CheckpointError when ``load``
    names another folder without a complete checkpoint, and when the configuration, dataset or tokenizer changed. With
    ``finetune`` ``load``'s checkpoint gives the weights alone, whatever it was trained on.
    ``order`` of the samples: a change of it is one of the notices.
    """
    root = checkpoint_root(config, run)
    weights_only = False
    folder, skipped = choose_checkpoint_together(root)
    if folder is None and (other := other_root(config, run)) is not None:
        # Another run's folder: it is read and never cleaned.
        folder, found = run_on_main(lambda: choose_checkpoint(other))
        skipped = [*skipped, *found]
        if folder is None:
            raise CheckpointError(word_missing(config))
        weights_only = config.finetune
    notices = [f"checkpoint {path} skipped: {reason}" for path, reason in skipped]
    if folder is None:
        return Start(None, 0, notices)
    chosen = folder
    if weights_only:
        told = run_on_main(lambda: check_weights(read_manifest(chosen), config, digests))
        return Start(chosen, 0, notices + told, weights_only=True)
    step, changes = run_on_main(lambda: _check(chosen, config, digests, order))
    return Start(chosen, step, notices + changes)


def _check(folder: Path, config: NeoxConfig, digests: dict[str, str], order: Order | None) -> tuple[int, list[str]]:
    manifest = read_manifest(folder)
    changes = check_resume(manifest, config, digests, allowed_changes())
    saved = {**manifest.other_settings, **manifest.training_relevant}
    if order is not None and saved.get("train_iters") and config.train_iters:
        before = saved["train_iters"] * saved.get("train_batch_size", config.train_batch_size)
        now = config.train_iters * config.train_batch_size
        changes += filter(None, [tell_other_epochs(order, before=before, now=now)])
    return manifest.step, changes
