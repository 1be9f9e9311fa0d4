"""Dividing a corpus: which files each job reads, by which rule documents are split, and with which tokenizer.

A plan has a folder of its own, named by what it was made from, and its shards lie in it. What changes the tokens thus
gives another folder, and a shard found whole in this one needs no second making.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from neox_train.data.fingerprinting import look_at
from neox_train.data.manifest import Record
from neox_train.data.sources import SourceFile
from neox_train.data.survey import make_tokenizer, survey_corpus
from neox_train.errors import DataError
from neox_train.files import find_record, make_folder, sha256_file, sha256_json, write_json

if TYPE_CHECKING:
    from neox_train.config.layout import DatasetFolder
    from neox_train.config.pipeline import DatasetSpec

_PLAN_NAME = "plan.json"
_KEY_CHARACTERS = 12


class ShardPlan(Record):
    """What the jobs of one dataset have in common."""

    key: str
    tokenizer_sha256: str
    bounds: tuple[int, ...]
    """Keys at which the splits end (``Splitter.bounds``)."""
    files: tuple[dict[str, Any], ...]
    """Name, bytes and time of last change of every file, in order."""
    counts: tuple[int, ...]
    """Files of each shard; each takes the next of ``files``."""

    def files_of(self, shard: int) -> tuple[dict[str, Any], ...]:
        """The files of one shard."""
        start = sum(self.counts[:shard])
        return self.files[start : start + self.counts[shard]]


def count_shards(spec: DatasetSpec, num_files: int) -> int:
    """Jobs among which the files are divided: not more than files."""
    return max(1, min(spec.shards, num_files))


def make_plan(
    spec: DatasetSpec, folder: DatasetFolder, files: Sequence[SourceFile], report: Callable[[str], None]
) -> ShardPlan:
    """The plan for these files as they are now: the one there is, or a new one with its tokenizer."""
    records: list[dict[str, Any]] = [{"name": file.name, **look_at(file)} for file in files]
    key = _make_key(spec, records)
    if (found := find_plan(folder, key)) is not None:
        return found
    place = folder.generation(key)
    make_folder(place.path)
    corpus = survey_corpus(spec, files, report)
    make_tokenizer(corpus, place, report)
    plan = ShardPlan(
        key=key,
        tokenizer_sha256=sha256_file(place.tokenizer),
        bounds=tuple(corpus.splitter.bounds),
        files=tuple(records),
        counts=tuple(divide([record["bytes"] for record in records], count_shards(spec, len(files)))),
    )
    write_json(place.path / _PLAN_NAME, plan.model_dump(mode="json"))
    report(f"{folder.path}: {len(files)} files for {len(plan.counts)} jobs, {min(plan.counts)}-{max(plan.counts)} each")
    return plan


def find_plan(folder: DatasetFolder, key: str) -> ShardPlan | None:
    """The plan ``key``, or None where it or its tokenizer is missing or damaged."""
    place = folder.generation(key)
    try:
        plan = ShardPlan.model_validate(find_record(place.path / _PLAN_NAME) or {})
        return plan if sha256_file(place.tokenizer) == plan.tokenizer_sha256 else None
    except (ValidationError, OSError):
        return None


def divide(sizes: Sequence[int], shards: int) -> list[int]:
    """How many neighbours each shard takes, of like bytes and at least one file; ``shards`` is at most len(sizes)."""
    ends = list(accumulate(sizes))
    counts: list[int] = []
    start = 0
    for shard in range(shards - 1):
        goal = ends[-1] * (shard + 1) / shards
        stop = bisect_left(ends, goal)
        if stop < len(ends) and ends[stop] - goal <= goal - (ends[stop - 1] if stop else 0):
            stop += 1
        stop = min(max(stop, start + 1), len(sizes) - (shards - shard - 1))
        counts.append(stop - start)
        start = stop
    return [*counts, len(sizes) - start]


def require_unchanged(plan: ShardPlan, shard: int, files: Sequence[SourceFile]) -> None:
    """Raise DataError where a file of the shard is no longer the one that was planned for."""
    for record, file in zip(plan.files_of(shard), files, strict=True):
        if look_at(file) != {"bytes": record["bytes"], "changed_ns": record["changed_ns"]}:
            raise DataError(f"{file.name} changed since its shards were planned; repeat the same command")


def _make_key(spec: DatasetSpec, records: Sequence[dict[str, Any]]) -> str:
    content: dict[str, Any] = {"spec": spec.content(), "shards": spec.shards, "files": list(records)}
    if spec.tokenizer.file is not None:
        try:
            content["tokenizer"] = sha256_file(Path(spec.tokenizer.file))
        except OSError as error:
            raise DataError(
                f"tokenizer {spec.tokenizer.file} cannot be read ({error.strerror}); correct the path"
            ) from error
    return sha256_json(content)[:_KEY_CHARACTERS]
