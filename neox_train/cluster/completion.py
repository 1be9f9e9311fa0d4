"""When a training is done: the trainer's finished.json holds, and trained.json says so to the workflow."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from neox_train.checkpoint.export_record import find_export_problem
from neox_train.checkpoint.manifest import verify_checkpoint
from neox_train.config.layout import RunFolder
from neox_train.config.load import load_config
from neox_train.config.schema import NeoxConfig
from neox_train.data.identity import identify_data, is_data_there
from neox_train.errors import ConfigError
from neox_train.files import find_record, sha256_file, write_json


def read_finished(run: RunFolder) -> dict[str, Any] | None:
    """The trainer's completion record, None where there is none or it is torn."""
    return find_record(run.finished)


def unfinished_reason(run: RunFolder, config: NeoxConfig, *, deep: bool) -> str | None:
    """Why the run still needs training, None when it is done.

    Done means: the record is of this configuration, dataset and number of steps, and its last checkpoint is there and
    whole (``deep``: by content, else by presence and size), or the export made from it stands in its place.
    """
    finished = read_finished(run)
    if finished is None:
        return "new" if not any(run.checkpoints.glob("step_*")) else "continued"
    if finished.get("training_digest") != config.training_digest():
        return "the finished training had another configuration"
    if finished.get("dataset_digest") != _dataset_digest(config, finished):
        return "trained on another dataset"
    if int(finished.get("step", 0)) < steps_wanted(config):
        return f"trained to step {finished.get('step')} of {config.train_iters}"
    problem = recorded_problem(run, finished, deep=deep)
    return None if problem and export_stands_in(run, finished) else problem


def _dataset_digest(config: NeoxConfig, finished: dict[str, Any]) -> object:
    """Digest of what the run trains on now, the tokenizer in it; a dataset that is gone contradicts nothing."""
    return identify_data(config)["dataset"] if is_data_there(config) else finished.get("dataset_digest")


def recorded_problem(run: RunFolder, record: dict[str, Any], *, deep: bool) -> str | None:
    """What is wrong with the checkpoint that finished.json or trained.json names; None when it holds."""
    return checkpoint_problem(run.path / str(record.get("checkpoint")), record.get("manifest_sha256"), deep=deep)


def export_stands_in(run: RunFolder, record: dict[str, Any]) -> bool:
    """Whether hf/ and parity.json hold what the recorded checkpoint held: nothing after training needs it then."""
    return find_export_problem(run, record.get("manifest_sha256")) is None


def lost_checkpoint_notice(run: RunFolder, record: dict[str, Any]) -> str | None:
    """One sentence where a trained run has its export and no longer its last checkpoint; None elsewhere."""
    problem = recorded_problem(run, record, deep=False)
    if problem is None or not export_stands_in(run, record):
        return None
    return f"run {run.name}: {problem}; {run.hf.name}/ has its weights, so the training is not repeated for it"


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
