"""finished.json: the trainer's own record that a run reached its last step."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from neox_train.checkpoint.folders import MANIFEST_NAME
from neox_train.checkpoint.state import TrainerState
from neox_train.checkpoint.writer import STATE_NAME
from neox_train.config.layout import RunFolder
from neox_train.files import find_record, read_json, sha256_file, write_json

if TYPE_CHECKING:
    from neox_train.config.schema import NeoxConfig

TRAIN_LOSS = "train_loss"
TEST_LOSS = "test_loss"
SECONDS = "seconds"
PEAK_MEMORY_GIB = "peak_memory_gib"
SAVE_SECONDS = "save_seconds"
"""Names in ``TrainerState.extra``: a checkpoint alone is enough to write this record again."""


def write_finished(run: RunFolder, config: NeoxConfig, checkpoint: Path, digests: dict[str, str]) -> None:
    """Write the record of the training that ``checkpoint`` ends, atomically. Call it on rank 0."""
    state = TrainerState.from_dict(read_json(checkpoint / STATE_NAME)["trainer"])
    write_json(
        run.finished,
        {
            "run": run.name,
            "step": state.step,
            "train_iters": config.train_iters,
            "checkpoint": _name_checkpoint(run, checkpoint),
            "manifest_sha256": sha256_file(checkpoint / MANIFEST_NAME),
            "train_loss": state.extra.get(TRAIN_LOSS),
            "validation_loss": state.last_validation_loss,
            "test_loss": state.extra.get(TEST_LOSS),
            "consumed_samples": state.consumed_samples,
            "consumed_tokens": state.consumed_samples * config.seq_length,
            "skipped_steps": state.skipped_steps,
            "peak_memory_gib": state.extra.get(PEAK_MEMORY_GIB),
            "memory_estimate": _judge_estimate(run, state.extra.get(PEAK_MEMORY_GIB)),
            "training_digest": config.training_digest(),
            "dataset_digest": digests["dataset"],
            "seconds": state.extra.get(SECONDS),
        },
    )


def _judge_estimate(run: RunFolder, measured: Any) -> dict[str, float] | None:
    """The estimate of what was measured, and its relative error; None where a run was not estimated or measured."""
    estimated = (find_record(run.memory_json) or {}).get("measurable_gib")
    if not estimated or not measured:
        return None
    return {"estimated_gib": estimated, "measured_gib": measured, "error": estimated / measured - 1}


def _name_checkpoint(run: RunFolder, checkpoint: Path) -> str:
    """Relative to the run's folder where it lies inside, so that the folder can be moved."""
    try:
        return str(checkpoint.resolve().relative_to(run.path.resolve()))
    except ValueError:
        return str(checkpoint.resolve())
