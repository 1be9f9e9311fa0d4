"""One shard of a divided dataset: its files encoded into a folder of its own, whole or not there."""

from __future__ import annotations

import math
import shutil
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from neox_train.config.layout import shard_name
from neox_train.data.dataset_tokenizer import load_placed_tokenizer
from neox_train.data.encoding import Encoder, encode_corpus
from neox_train.data.fingerprinting import fingerprint_alongside
from neox_train.data.installation import scratch_folder
from neox_train.data.manifest import Dropped, Record, Split
from neox_train.data.shard_plan import ShardPlan, require_unchanged
from neox_train.data.sources import SourceFile
from neox_train.data.splits import Splitter
from neox_train.data.survey import Corpus
from neox_train.files import find_record, storage_errors, write_json
from neox_train.locks import hold_lock

if TYPE_CHECKING:
    from neox_train.config.layout import DatasetFolder
    from neox_train.config.pipeline import DatasetSpec

_PART_NAME = "part.json"


class Part(Record):
    """What one shard holds; its file names are relative to the dataset's folder."""

    splits: dict[str, Split]
    dropped: Dropped
    encoder: Encoder
    sources: tuple[dict[str, Any], ...]
    """The records of its files, with their hashes."""


def build_part(
    spec: DatasetSpec,
    folder: DatasetFolder,
    plan: ShardPlan,
    shard: int,
    files: Sequence[SourceFile],
    report: Callable[[str], None],
    *,
    encoder: Encoder = "gigatoken",
) -> Part:
    """The shard as it is there, or encoded now; ``files`` are those of the whole dataset.

    ``encoder`` tokenizers makes a shard anew that gigatoken made. Another process at work on the shard is waited for.
    """
    name = shard_name(shard)
    target = folder.generation(plan.key)
    with hold_lock(folder.part(name).lock, note="tokenize", wait_seconds=math.inf, tell=report):
        found = find_part(folder, plan, shard)
        if found is not None and (found.encoder == encoder or encoder == "gigatoken"):
            return found
        start = sum(plan.counts[:shard])
        own = files[start : start + plan.counts[shard]]
        require_unchanged(plan, shard, own)
        with scratch_folder(folder.part(name)) as scratch:
            part = _encode(spec, target, plan, own, scratch, report, encoder)
            part = _place_files(part, f"{target.path.name}/{name}")
            write_json(scratch.path / _PART_NAME, part.model_dump(mode="json"))
            with storage_errors(target.path):
                shutil.rmtree(target.path / name, ignore_errors=True)
                scratch.path.replace(target.path / name)
        report(f"{folder.path}: shard {shard} of {len(plan.counts)}, {describe_splits(part.splits)}")
        return part


def find_part(folder: DatasetFolder, plan: ShardPlan, shard: int) -> Part | None:
    """The shard's record, or None where it or a file that it names is missing, damaged or cut short."""
    try:
        record = find_record(folder.generation(plan.key).path / shard_name(shard) / _PART_NAME)
        part = Part.model_validate(record or {})
        whole = all(
            (folder.path / file.file).stat().st_size == file.bytes
            for split in part.splits.values()
            for file in split.shards
        )
    except (ValidationError, OSError):
        return None
    return part if whole else None


def describe_splits(splits: dict[str, Split]) -> str:
    """Counts of every split in words."""
    return ", ".join(f"{name} {split.tokens} tokens of {split.documents} documents" for name, split in splits.items())


def _encode(
    spec: DatasetSpec,
    target: DatasetFolder,
    plan: ShardPlan,
    files: Sequence[SourceFile],
    scratch: DatasetFolder,
    report: Callable[[str], None],
    encoder: Encoder,
) -> Part:
    splitter = Splitter(spec.splits.model_dump(), spec.seed, None, bounds=plan.bounds)
    corpus = Corpus(spec, files, splitter, sum(file.path.stat().st_size for file in files))
    tokenizer = load_placed_tokenizer(spec, target)
    with fingerprint_alongside(files) as fingerprints:
        encoded = encode_corpus(corpus, tokenizer, plan.tokenizer_sha256, scratch.shard, report, encoder=encoder)
        records = tuple(fingerprints())
    return Part(splits=encoded.splits, dropped=encoded.dropped, encoder=encoded.encoder, sources=records)


def _place_files(part: Part, folder_name: str) -> Part:
    """The part with its files named from the dataset's folder."""
    splits = {
        name: split.model_copy(
            update={
                "shards": tuple(file.model_copy(update={"file": f"{folder_name}/{file.file}"}) for file in split.shards)
            }
        )
        for name, split in part.splits.items()
    }
    return part.model_copy(update={"splits": splits})
