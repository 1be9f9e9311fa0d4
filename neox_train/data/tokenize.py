"""The tokenize stage: from a dataset's entry in the pipeline file to a finished folder, or nothing to do."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from neox_train.config.layout import PLAN, shard_name
from neox_train.data.build import build_dataset
from neox_train.data.dataset_tokenizer import find_tokenizer_change
from neox_train.data.manifest import Manifest, load_manifest
from neox_train.data.shard_build import build_part, describe_splits
from neox_train.data.shard_join import join_dataset
from neox_train.data.shard_plan import count_shards, find_plan, make_plan
from neox_train.data.sources import SourceFile, find_change, list_sources, tell_hard_links
from neox_train.errors import DataError
from neox_train.files import find_record, write_json
from neox_train.locks import hold_lock

if TYPE_CHECKING:
    from neox_train.config.layout import DatasetFolder
    from neox_train.config.pipeline import DatasetSpec


def tokenize_dataset(spec: DatasetSpec, folder: DatasetFolder, *, report: Callable[[str], None] = print) -> Manifest:
    """Tokenize a dataset into ``folder`` and return its manifest; where it is finished the marker alone is
    written, if it is missing.

    Finished means: the manifest is of this very spec, the sources and the tokenizer are unchanged, and every shard has
    its size. Anything else is built anew, beside the old files, which stay until the new ones are complete.
    Another process at work on the folder is waited for: a killed workflow leaves its stage running.
    Raises DataError for unusable input, StorageError for an unwritable folder or a full disk.
    """
    with hold_lock(folder.lock, note="tokenize", wait_seconds=math.inf, tell=report):
        files = list_sources(spec.source)
        if folder.manifest.exists():
            reason = find_staleness(spec, folder, files)
            if reason is None:
                manifest = load_manifest(folder.path)
                report(f"{folder.path}: up to date ({describe(manifest)}); nothing to do")
                _write_marker(folder, manifest)
                return manifest
            report(f"{folder.path}: {reason}; tokenizing again")
        for sentence in tell_hard_links(files):
            report(sentence)
        build = join_dataset if count_shards(spec, len(files)) > 1 else build_dataset
        manifest = build(spec, folder, files, report)
        _write_marker(folder, manifest)
        report(f"{folder.path}: {describe(manifest)}")
        return manifest


def plan_dataset(spec: DatasetSpec, folder: DatasetFolder, *, report: Callable[[str], None] = print) -> None:
    """Divide a dataset's files among jobs; its marker names the plan, or none where the dataset is finished."""
    with hold_lock(folder.lock, note="tokenize", wait_seconds=math.inf, tell=report):
        files = list_sources(spec.source)
        key = None
        if not folder.manifest.exists() or find_staleness(spec, folder, files) is not None:
            for sentence in tell_hard_links(files):
                report(sentence)
            key = make_plan(spec, folder, files, report).key
        else:
            report(f"{folder.path}: up to date; nothing to divide")
        write_json(folder.part(PLAN).tokenized, {"dataset": folder.name, "plan": key})


def tokenize_shard(
    spec: DatasetSpec, folder: DatasetFolder, shard: int, *, report: Callable[[str], None] = print
) -> None:
    """Tokenize one shard of a divided dataset, or nothing where it is there; its marker comes last.

    Raises DataError where nothing is divided yet, or not into that many shards.
    """
    key = (find_record(folder.part(PLAN).tokenized) or {"plan": ""})["plan"]
    if key is not None:
        plan = find_plan(folder, key)
        if plan is None:
            raise DataError(
                f"{folder.path} is not divided into shards; run `neox-train tokenize {folder.name} --part {PLAN}`"
            )
        if shard >= len(plan.counts):
            raise DataError(f"{folder.path} has {len(plan.counts)} shards, counted from 0; there is no shard {shard}")
        build_part(spec, folder, plan, shard, list_sources(spec.source), report)
    write_json(folder.part(shard_name(shard)).tokenized, {"dataset": folder.name, "plan": key, "shard": shard})


def _write_marker(folder: DatasetFolder, manifest: Manifest) -> None:
    """The workflow deletes the marker when the stage fails or runs again, and never what the marker vouches for."""
    record = {"dataset": folder.name, "digest": manifest.digest}
    if find_record(folder.tokenized) != record:
        write_json(folder.tokenized, record)


def find_staleness(spec: DatasetSpec, folder: DatasetFolder, files: Sequence[SourceFile]) -> str | None:
    """Why the dataset in ``folder`` is not what ``spec`` and its sources give now, or None."""
    try:
        manifest = load_manifest(folder.path)
    except DataError as error:
        return str(error)
    if not spec.is_of(manifest.spec):
        return "its entry in the pipeline file changed"
    if (reason := find_tokenizer_change(spec, folder, manifest.tokenizer_sha256)) is not None:
        return reason
    for shard in manifest.shards():
        path = folder.path / shard.file
        if not path.exists() or path.stat().st_size != shard.bytes:
            return f"{shard.file} is missing or cut short"
    return find_change(folder.path, files)


def describe(manifest: Manifest) -> str:
    """One line of counts, with what was left out where anything was."""
    dropped = manifest.dropped
    is_whole = not (dropped.empty_documents or dropped.duplicate_documents or dropped.skipped.count)
    left_out = "" if is_whole else f"; left out: {dropped}"
    return f"{describe_splits(manifest.splits)}; vocabulary {manifest.vocab_size}, {manifest.dtype}{left_out}"
