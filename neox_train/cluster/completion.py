"""When a training is done: the trainer's finished.json holds, and trained.json says so to the workflow."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from neox_train.checkpoint.manifest import verify_checkpoint
from neox_train.config.layout import RunFolder
from neox_train.config.load import load_config
from neox_train.config.schema import NeoxConfig
from neox_train.errors import ConfigError
from neox_train.files import read_json, sha256_file, write_json


def read_finished(run: RunFolder) -> dict[str, Any] | None:
    """The trainer's completion record, None where there is none or it is torn."""
    try:
        finished = read_json(run.finished)
    except ValueError:
        return None
    return finished if isinstance(finished, dict) else None


def unfinished_reason(run: RunFolder, config: NeoxConfig, *, deep: bool) -> str | None:
    """Why the run still needs training, None when it is done.

    Done means: the record is of this configuration and number of steps, and its last checkpoint is there and whole
    (``deep``: by content, else by presence and size).
    """
    finished = read_finished(run)
    if finished is None:
        return "new" if not any(run.checkpoints.glob("step_*")) else "continued"
    if finished.get("training_digest") != config.training_digest():
        return "the finished training had another configuration"
    if int(finished.get("step", 0)) < steps_wanted(config):
        return f"trained to step {finished.get('step')} of {config.train_iters}"
    return checkpoint_problem(run.path / str(finished.get("checkpoint")), finished.get("manifest_sha256"), deep=deep)


def steps_wanted(config: NeoxConfig) -> int:
    """train_iters; raises ConfigError where the configuration names none."""
    if config.train_iters is None:
        raise ConfigError("train_iters is missing; set the number of optimizer steps")
    return config.train_iters


def checkpoint_problem(folder: Path, manifest_sha256: str | None, *, deep: bool) -> str | None:
    """What is wrong with the checkpoint that a record names; None when it holds."""
    manifest = folder / "manifest.json"
    if not manifest.is_file():
        return f"its checkpoint {folder.name} is gone"
    if sha256_file(manifest) != manifest_sha256:
        return f"its checkpoint {folder.name} is another one"
    problems = verify_checkpoint(folder, deep=deep)
    return f"its checkpoint {folder.name}: {problems[0]}" if problems else None


def write_trained(run: RunFolder, attempts: int) -> None:
    """Write the stage's marker from the trainer's record."""
    finished = read_finished(run)
    if finished is None:
        raise FileNotFoundError(run.finished)
    write_json(run.trained, {**finished, "attempts": attempts, "finished_sha256": sha256_file(run.finished)})


def read_run_config(run: RunFolder) -> NeoxConfig:
    """The run's resolved configuration."""
    return load_config([run.config_file])
