"""Evaluation of one run: its exported model on the held-out split, beside the yardsticks, in ``evaluation.json``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from neox_train.checkpoint.export_record import RECORD_NAME
from neox_train.config.layout import DatasetFolder, RunFolder
from neox_train.data.manifest import Manifest, load_manifest
from neox_train.data.store import TokenStore
from neox_train.errors import UserError
from neox_train.evaluation.exported import export_digest, load_exported_tokenizer
from neox_train.evaluation.held_out import open_held_out
from neox_train.evaluation.tasks import TASKS, EvaluationContext, Task, run_tasks
from neox_train.files import find_record, write_json

if TYPE_CHECKING:
    from neox_train.config.pipeline import EvaluationSpec

FORMAT_VERSION = 1


def evaluate_run(
    run: RunFolder,
    dataset: DatasetFolder,
    spec: EvaluationSpec,
    *,
    seq_length: int,
    seed: int,
    tasks: Mapping[str, Task] = TASKS,
) -> dict[str, Any]:
    """Evaluate the exported model of ``run`` and write evaluation.json, last; the same inputs give the same file.

    Finished tasks stay in ``run.evaluation_parts``. Losses are nats a token, sizes bytes. Raises UserError where there
    is no export, no held-out text, or the model does not know the dataset's vocabulary.
    """
    export = export_digest(run.hf)
    manifest = load_manifest(dataset.path)
    _require_split(manifest, spec.split, dataset)
    _require_own_tokenizer(run, manifest, dataset)
    tokenizer = load_exported_tokenizer(run.hf)
    store = TokenStore.open(dataset.path, spec.split)
    held_out = open_held_out(store, manifest, tokenizer, split=spec.split, max_bytes=spec.max_bytes)
    context = EvaluationContext(
        export=run.hf,
        held_out=held_out,
        train=TokenStore.open(dataset.path, "train"),
        vocab_size=manifest.vocab_size,
        seq_length=seq_length,
        continuations=spec.continuations,
        continuation_tokens=spec.continuation_tokens,
        seed=seed,
    )
    identity = {
        "format_version": FORMAT_VERSION,
        "export_sha256": export,
        "dataset_digest": manifest.digest,
        "split": spec.split,
        "documents": held_out.num_documents,
        "bytes": held_out.num_bytes,
    }
    evaluation = {
        **identity,
        "run": run.name,
        "dataset": dataset.name,
        "seq_length": seq_length,
        "note": held_out.note,
        "tasks": run_tasks(tasks, context, run.evaluation_parts, identity=identity),
    }
    write_json(run.evaluation, evaluation)
    return evaluation


def _require_own_tokenizer(run: RunFolder, manifest: Manifest, dataset: DatasetFolder) -> None:
    """The dataset's ids mean words of its tokenizer; an export that does not say which one it has is not judged."""
    own = (find_record(run.hf / RECORD_NAME) or {}).get("tokenizer_sha256", manifest.tokenizer_sha256)
    if own != manifest.tokenizer_sha256:
        raise UserError(
            f"{run.hf} was trained with another tokenizer (SHA-256 {own[:12]}) than {dataset.path} was made with "
            f"({manifest.tokenizer_sha256[:12]}): its ids are other words to the model; measure on a dataset of the "
            "model's own tokenizer"
        )


def _require_split(manifest: Manifest, split: str, dataset: DatasetFolder) -> None:
    if split not in manifest.splits:
        known = ", ".join(manifest.splits)
        raise UserError(
            f"evaluation: split: {split} is not a split of dataset {dataset.name}; set it to one of: {known}"
        )
