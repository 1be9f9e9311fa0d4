"""Which checkpoint an export is made from, whether it is of the run's configuration, and where the export goes."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from neox_train.checkpoint.export_record import find_export_problem
from neox_train.checkpoint.manifest import MANIFEST_NAME, inspect_manifest, read_manifest
from neox_train.checkpoint.trained_text import TrainedText
from neox_train.config.layout import RunFolder
from neox_train.config.schema import NeoxConfig
from neox_train.config.sections.attention import AttentionKeys
from neox_train.config.sections.model import ModelKeys, NormKeys, PositionKeys
from neox_train.errors import CheckpointError
from neox_train.files import read_json, sha256_file


@dataclass(frozen=True, kw_only=True, slots=True)
class ConvertSource:
    """A step folder, the SHA-256 of its manifest file, and the files its export is written to."""

    folder: Path
    manifest_sha256: str
    hf: Path
    parity: Path
    marker: Path | None
    """The stage's marker; None for a checkpoint that is not the one the training ended with."""


def choose_source(run: RunFolder, config: NeoxConfig, text: TrainedText, step_folder: Path | None) -> ConvertSource:
    """The trained checkpoint, or ``step_folder``, whose export goes beside it and never takes the run's place.

    Raises CheckpointError where there is no such checkpoint, where the run was trained with another configuration than
    its config.yml or on another dataset, and where the trained checkpoint is gone and no export stands in for it.
    """
    if step_folder is None:
        folder, digest = _trained_checkpoint(run, config, text)
        return _as_trained(run, folder, digest)
    digest = _manifest_digest(step_folder)
    _require_same_model(step_folder, run, config, text)
    if _is_trained(run, digest):
        return _as_trained(run, step_folder, digest)
    return ConvertSource(
        folder=step_folder,
        manifest_sha256=digest,
        hf=run.hf.with_name(f"{run.hf.name}-{step_folder.name}"),
        parity=run.parity.with_name(f"{run.parity.stem}-{step_folder.name}.json"),
        marker=None,
    )


def _as_trained(run: RunFolder, folder: Path, digest: str) -> ConvertSource:
    return ConvertSource(folder=folder, manifest_sha256=digest, hf=run.hf, parity=run.parity, marker=run.converted)


def _trained_checkpoint(run: RunFolder, config: NeoxConfig, text: TrainedText) -> tuple[Path, str]:
    """The checkpoint that trained.json, or the trainer's finished.json, names."""
    for file in (run.trained, run.finished):
        if not file.is_file():
            continue
        record = _read_record(run, file)
        folder, digest = run.path / record["checkpoint"], record["manifest_sha256"]
        again = f"repeat {run.training_command}"
        if record["training_digest"] != config.training_digest():
            raise CheckpointError(
                f"{run.config_file} is not the configuration that {file.name} was trained with"
                f"{_name_changes(folder, config)}; put the old values back, or {again}"
            )
        if record["dataset_digest"] != text.digest:
            raise CheckpointError(f"{text.path} is not the dataset that {file.name} was trained on; {again}")
        _require_checkpoint(run, file, folder, digest)
        return folder, digest
    raise CheckpointError(
        f"{run.path} is not trained to its end (no trained.json); repeat {run.training_command}, or name one of its "
        "step folders with --checkpoint"
    )


def _read_record(run: RunFolder, file: Path) -> dict[str, Any]:
    try:
        record = read_json(file)
        return {key: record[key] for key in ("checkpoint", "manifest_sha256", "training_digest", "dataset_digest")}
    except (ValueError, KeyError, TypeError) as error:
        raise CheckpointError(f"{file} is damaged; delete it and repeat {run.training_command}") from error


def _require_checkpoint(run: RunFolder, file: Path, folder: Path, digest: str) -> None:
    if not (folder / MANIFEST_NAME).is_file():
        if problem := find_export_problem(run, digest):
            raise CheckpointError(
                f"{folder}, which {file.name} names, is gone and {problem}; train the run again for another export"
            )
    elif sha256_file(folder / MANIFEST_NAME) != digest:
        raise CheckpointError(
            f"{folder} is not the checkpoint that {file.name} names (another manifest); train the run again"
        )


def _manifest_digest(folder: Path) -> str:
    try:
        return sha256_file(folder / MANIFEST_NAME)
    except (FileNotFoundError, NotADirectoryError) as error:
        raise CheckpointError(f"{folder} is no checkpoint (no manifest.json); name a complete step folder") from error


def _is_trained(run: RunFolder, digest: str) -> bool:
    files = [file for file in (run.trained, run.finished) if file.is_file()]
    return bool(files) and _read_record(run, files[0])["manifest_sha256"] == digest


def _require_same_model(folder: Path, run: RunFolder, config: NeoxConfig, text: TrainedText) -> None:
    """Any checkpoint of the run may be exported, if it computes what config.yml says, on the dataset's tokens."""
    if changes := _name_changes(folder, config, only=_MODEL_KEYS):
        raise CheckpointError(
            f"{run.config_file} describes another model than {folder} holds{changes}; put the old values back"
        )
    if read_manifest(folder).digests.get("tokenizer") != text.tokenizer.sha256:
        raise CheckpointError(
            f"{folder} was trained with another tokenizer than that of {text.path}; tokenize its dataset again"
        )


_MODEL_KEYS = frozenset[str]().union(
    *(section.model_fields for section in (ModelKeys, NormKeys, PositionKeys, AttentionKeys))
) | {"attention_layers", "ffn_width", "norm_epsilon", "vocab_size"}


def _name_changes(folder: Path, config: NeoxConfig, only: frozenset[str] | None = None) -> str:
    """`` (rotary_pct 0.25, now 0.5)`` for the keys that differ from the checkpoint's; empty where none does."""
    manifest, _ = inspect_manifest(folder)
    if manifest is None:
        return ""
    old, new = manifest.training_relevant, config.training_relevant()
    keys = [key for key in sorted(old.keys() | new.keys()) if only is None or key in only]
    changed = [f"{key} {old.get(key)}, now {new.get(key)}" for key in keys if old.get(key) != new.get(key)]
    return f" ({'; '.join(changed)})" if changed else ""
