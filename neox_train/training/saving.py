"""Checkpoints as the loop makes them: room checked before, old ones pruned after."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from neox_train.checkpoint.retention import prune as remove_old
from neox_train.checkpoint.space import checkpoint_size_bytes, require_space
from neox_train.checkpoint.state import TrainerState
from neox_train.checkpoint.writer import save_checkpoint
from neox_train.training.cadence import count_saves, last_step
from neox_train.training.distributed import run_on_main

if TYPE_CHECKING:
    from deepspeed import DeepSpeedEngine

    from neox_train.config.schema import NeoxConfig
    from neox_train.model.gpt_neox import GPTNeoX


@dataclass(frozen=True, kw_only=True)
class CheckpointKeeper:
    """Writes and keeps a run's checkpoints; every method is collective."""

    root: Path
    config: NeoxConfig
    engine: DeepSpeedEngine
    model: GPTNeoX
    digests: dict[str, str]

    def check_space(self, first_step: int) -> list[str]:
        """Warnings about room for the saves from ``first_step`` on; StorageError where not one fits."""
        return run_on_main(
            lambda: require_space(
                self.root,
                checkpoint_size_bytes(self.config),
                saves=count_saves(self.config, first_step),
                keep_last_n=self.config.keep_last_n_checkpoints,
                protected=len(self.config.extra_save_iters or ()),
            )
        )

    def save(self, state: TrainerState, *, prune: bool = True) -> Path:
        """Save at a step boundary, then (``prune``) remove what retention lets go.

        StorageError, the same on every rank, when there is no room.
        """
        folder = save_checkpoint(
            self.root,
            engine=self.engine,
            model=self.model,
            config=self.config,
            trainer=state,
            digests=self.digests,
            final=state.step >= last_step(self.config),
        )
        if prune:
            keep, protected = self.config.keep_last_n_checkpoints, self.config.extra_save_iters or ()
            run_on_main(lambda: remove_old(self.root, keep, protected, up_to=state.step))
        return folder
