"""Joining the shards of a divided dataset: the manifest puts them in order, and no token is copied."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from neox_train.data.build import describe_dataset
from neox_train.data.dataset_tokenizer import list_tokenizer_files, load_placed_tokenizer
from neox_train.data.installation import remove_tokens
from neox_train.data.manifest import Dropped, Manifest, Skipped, Split
from neox_train.data.shard_build import Part, build_part
from neox_train.data.shard_plan import make_plan
from neox_train.data.sources import SourceFile, write_sources
from neox_train.files import atomic_path, storage_errors

if TYPE_CHECKING:
    from neox_train.config.layout import DatasetFolder
    from neox_train.config.pipeline import DatasetSpec

_MAX_SAMPLES = 10


def join_dataset(
    spec: DatasetSpec, folder: DatasetFolder, files: Sequence[SourceFile], report: Callable[[str], None]
) -> Manifest:
    """Write the manifest of all shards, building those that are missing, and remove what earlier ones left."""
    plan = make_plan(spec, folder, files, report)
    target = folder.generation(plan.key)
    shards = range(len(plan.counts))
    parts = [build_part(spec, folder, plan, shard, files, report) for shard in shards]
    if len({part.encoder for part in parts}) > 1:
        # One difference found is one too many: where gigatoken was not caught it may differ all the same.
        report(f"warning: {folder.path}: gigatoken was inexact in a shard; the other shards are encoded without it too")
        parts = [build_part(spec, folder, plan, shard, files, report, encoder="tokenizers") for shard in shards]
    records = [record for part in parts for record in part.sources]
    tokenizer = load_placed_tokenizer(spec, target)
    splits = {name: _join_splits([part.splits[name] for part in parts]) for name in parts[0].splits}
    manifest = describe_dataset(spec, tokenizer, plan.tokenizer_sha256, splits, _add_dropped(parts), records)
    with storage_errors(folder.path):
        folder.tokenized.unlink(missing_ok=True)
        folder.manifest.unlink(missing_ok=True)
        folder.sentencepiece.unlink(missing_ok=True)
        for file in list_tokenizer_files(target):
            with atomic_path(folder.path / file.name) as temporary:
                shutil.copyfile(file, temporary)
    write_sources(folder.path, records)
    manifest.write(folder.path)
    remove_tokens(folder, keep=target.path.name)
    return manifest


def _join_splits(splits: Sequence[Split]) -> Split:
    return Split(
        documents=sum(split.documents for split in splits),
        tokens=sum(split.tokens for split in splits),
        bytes=sum(split.bytes for split in splits),
        shards=tuple(shard for split in splits for shard in split.shards),
    )


def _add_dropped(parts: Sequence[Part]) -> Dropped:
    dropped = [part.dropped for part in parts]
    samples = [sample for entry in dropped for sample in entry.skipped.samples]
    return Dropped(
        empty_documents=sum(entry.empty_documents for entry in dropped),
        duplicate_documents=sum(entry.duplicate_documents for entry in dropped),
        blank_lines=sum(entry.blank_lines for entry in dropped),
        skipped=Skipped(count=sum(entry.skipped.count for entry in dropped), samples=tuple(samples[:_MAX_SAMPLES])),
    )
