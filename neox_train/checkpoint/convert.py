"""The convert stage: a trained run's checkpoint -> ``hf/``, ``parity.json``, and the marker ``converted.json`` last."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import torch

from neox_train.checkpoint.convert_source import ConvertSource, choose_source
from neox_train.checkpoint.hf_config import choose_family
from neox_train.checkpoint.hf_export import Export, read_export, write_export
from neox_train.checkpoint.manifest import verify_checkpoint
from neox_train.checkpoint.parity import TOLERANCE, build_trained_model, compare, load_export
from neox_train.checkpoint.trained_text import TrainedText, choose_windows, find_trained_text
from neox_train.checkpoint.weights import read_model_weights
from neox_train.config.architecture import Architecture
from neox_train.config.layout import RunFolder
from neox_train.config.load import load_config
from neox_train.config.schema import NeoxConfig
from neox_train.errors import CheckpointError, ConfigError, DataError
from neox_train.files import find_record, write_json

Weights = Callable[[], Mapping[str, torch.Tensor]]
Report = Callable[[str], None]


@dataclass(frozen=True, kw_only=True, slots=True)
class ConvertOptions:
    """What a caller may choose about an export."""

    dtype: str = "float32"
    max_shard_bytes: int = 5 * 10**9
    tolerance: float = TOLERANCE
    step_folder: Path | None = None
    """A checkpoint other than the one the training ended with: its export goes to ``hf-step_…/``, without a marker."""


def convert_run(run: RunFolder, options: ConvertOptions, *, report: Report = print) -> dict[str, Any]:
    """Export the run's checkpoint, compare it with the model it came from, and return what converted.json holds.

    What is done already for the same checkpoint is not done again. Raises CheckpointError where the run is not
    trained, where its checkpoint is damaged, and where the logits differ by more than the tolerance: then ``hf/`` and
    parity.json stay to be looked at, and the marker is not written. Nor is it for a checkpoint other than the trained.
    """
    config, trained_on = _read_run(run)
    architecture = Architecture.from_config(config)
    choose_family(architecture)
    source = choose_source(run, config, trained_on, options.step_folder)
    export = Export(
        checkpoint=source.folder.name,
        manifest_sha256=source.manifest_sha256,
        architecture=architecture,
        tokenizer=trained_on.tokenizer,
        dtype=options.dtype,
        max_shard_bytes=options.max_shard_bytes,
    )

    @cache
    def weights() -> Mapping[str, torch.Tensor]:
        return _read_verified(source.folder)

    files = read_export(source.hf, export)
    if files is not None:
        report(f"{source.hf}: already converted from {export.checkpoint}")
    else:
        files = write_export(source.hf, export, weights, report=report)
        report(f"{source.hf}: {len(files)} files from {export.checkpoint}, weights in {export.dtype}")
    parity = _check_parity(source, export, trained_on, weights, options.tolerance)
    report(
        f"parity on {parity['tokens']} tokens of {parity['split']} text: "
        f"logits differ by at most {parity['max_abs_difference']:.2g}"
    )
    record = export.identity() | {
        "run": run.name,
        "parity": {key: parity[key] for key in ("max_abs_difference", "tolerance")},
        "files": files,
    }
    if source.marker is not None:
        write_json(source.marker, record)
    return record


def _read_run(run: RunFolder) -> tuple[NeoxConfig, TrainedText]:
    if not run.config_file.is_file():
        raise ConfigError(
            f"{run.config_file} is missing: {run.path} is no run's folder, or its training never began; correct the "
            "path, or train it first"
        )
    config = load_config([run.config_file])
    text = find_trained_text(config)
    if config.vocab_size not in (None, text.vocab_size):
        raise DataError(
            f"{text.path} has {text.vocab_size} tokens, the run was trained with {config.vocab_size}; "
            "tokenize the run's dataset again"
        )
    return config.with_vocab_size(text.vocab_size), text


def _read_verified(step_folder: Path) -> Mapping[str, torch.Tensor]:
    problems = verify_checkpoint(step_folder)
    if problems:
        raise CheckpointError(f"{step_folder} is damaged ({problems[0]}); choose another step or train again")
    return read_model_weights(step_folder)


def _check_parity(
    source: ConvertSource, export: Export, text: TrainedText, weights: Weights, tolerance: float
) -> dict[str, Any]:
    """Contents of parity.json, measured unless the file already tells of this export and text."""
    split, windows = choose_windows(text.splits(), export.architecture.seq_length)
    about = export.identity() | {
        "dataset_digest": text.digest,
        "split": split,
        "seq_length": windows.shape[1] - 1,
    }
    parity = find_record(source.parity)
    if parity is None or parity | about | {"tolerance": tolerance} != parity:
        trained = build_trained_model(weights(), export.architecture, dtype=export.dtype)
        measured = compare(trained, load_export(source.hf), windows, tolerance=tolerance)
        parity = about | measured.to_json()
        write_json(source.parity, parity)
    difference = parity["max_abs_difference"]
    if not parity["within_tolerance"]:
        shown = "a logit that is not finite" if difference is None else f"logits {difference:.3g} apart"
        raise CheckpointError(
            f"{source.hf} does not compute what the trained model computes: {shown} on {split} text, {tolerance:g} is "
            f"allowed; see {source.parity}, and use neither until the cause is known"
        )
    return parity
