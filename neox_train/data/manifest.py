"""The manifest of a tokenized dataset: what its shards hold and where they came from; written last, so it vouches."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from neox_train.errors import DataError
from neox_train.files import sha256_json, write_json

MANIFEST_NAME = "manifest.json"
FORMAT_VERSION = 1
_MAKE = "make (`neox-train tokenize`, or `data import` of .bin/.idx files)"


class Record(BaseModel):
    """What is written beside the tokens: nothing unknown is read over."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Shard(Record):
    """One HDF5 file of a split."""

    file: str
    sha256: str
    bytes: int
    """Size of the file in bytes."""
    tokens: int
    documents: int


class Split(Record):
    """One split: its shards in reading order and what they add up to."""

    documents: int = 0
    tokens: int = 0
    """Tokens, the end-of-document tokens among them."""
    bytes: int = 0
    """UTF-8 bytes of the documents' text."""
    shards: tuple[Shard, ...] = ()


class Skipped(Record):
    """Input that was left out because it could not be read, with the first few cases."""

    count: int = 0
    samples: tuple[str, ...] = ()


class Dropped(Record):
    """What the readers left out, by reason."""

    empty_documents: int = 0
    duplicate_documents: int = 0
    blank_lines: int = 0
    skipped: Skipped = Skipped()

    def __str__(self) -> str:
        text = f"{self.empty_documents} empty, {self.duplicate_documents} duplicate, {self.skipped.count} unreadable"
        return f"{text}, the first: {self.skipped.samples[0]}" if self.skipped.samples else text


class Sources(Record):
    """The files the text was read from; each is listed in sources.json."""

    files: int
    bytes: int
    digest: str
    """SHA-256 over every source's name, size and content hash."""


class Manifest(Record):
    """A tokenized dataset."""

    format_version: int = FORMAT_VERSION
    digest: str
    """SHA-256 over the tokenizer and the shards: equal digests, equal token streams."""
    vocab_size: int
    """Largest token id the tokenizer can give, plus one."""
    dtype: Literal["uint16", "uint32"]
    eod_token: str
    """Text of the end-of-document token; every document ends with exactly one."""
    eod_id: int
    tokenizer_sha256: str
    splits: dict[str, Split]
    sources: Sources
    dropped: Dropped = Dropped()
    spec: dict[str, Any] | None = None
    """The dataset's entry of the pipeline file; None for imported data."""
    provenance: dict[str, Any] = Field(default_factory=dict)

    @property
    def remedy(self) -> str:
        """How its files are made again, to complete a sentence."""
        if self.spec is None:
            return "delete its folder and run `neox-train data import` again"
        return "delete it and run `neox-train tokenize` again"

    def shards(self) -> list[Shard]:
        """Every shard of every split."""
        return [shard for split in self.splits.values() for shard in split.shards]

    def write(self, folder: Path) -> None:
        """Write ``folder/manifest.json`` atomically."""
        write_json(Path(folder) / MANIFEST_NAME, self.model_dump(mode="json"))


def make_manifest(
    *,
    vocab_size: int,
    dtype: str,
    eod_token: str,
    eod_id: int,
    tokenizer_sha256: str,
    splits: dict[str, Split],
    **facts: Any,
) -> Manifest:
    """A manifest with its digest; ``facts`` are the fields that say where the tokens came from, which it leaves out."""
    content = {
        "vocab_size": vocab_size,
        "dtype": dtype,
        "eod_id": eod_id,
        "tokenizer_sha256": tokenizer_sha256,
        "splits": splits,
    }
    digest = content_digest(
        tokenizer_sha256=tokenizer_sha256, vocab_size=vocab_size, dtype=dtype, eod_id=eod_id, splits=splits
    )
    return Manifest.model_validate(content | {"digest": digest, "eod_token": eod_token} | facts)


def content_digest(*, tokenizer_sha256: str, vocab_size: int, dtype: str, eod_id: int, splits: dict[str, Split]) -> str:
    """SHA-256 over what training reads: the tokenizer and every shard's hash, in order."""
    shards = {name: [shard.sha256 for shard in split.shards] for name, split in splits.items()}
    return sha256_json(
        {"tokenizer": tokenizer_sha256, "vocab_size": vocab_size, "dtype": dtype, "eod_id": eod_id, "shards": shards}
    )


def load_manifest(folder: Path) -> Manifest:
    """Read ``folder/manifest.json``; raises DataError where it is absent, damaged or of a later format."""
    path = Path(folder) / MANIFEST_NAME
    try:
        raw = json.loads(path.read_text(encoding="utf-8"))
        version = raw["format_version"]
    except (FileNotFoundError, NotADirectoryError) as error:
        raise DataError(
            f"{path} cannot be read ({error.strerror}): {folder} is not a finished dataset; {_MAKE} it"
        ) from error
    except OSError as error:
        raise DataError(
            f"{path} cannot be read ({error.strerror}); give read permission for it and its folder, or copy it anew"
        ) from error
    except (ValueError, KeyError, TypeError) as error:
        raise DataError(f"{path} is damaged; delete it and {_MAKE} the dataset again") from error
    if version != FORMAT_VERSION:
        raise DataError(
            f"{path} has format_version {version}, this neox-train reads {FORMAT_VERSION}; "
            f"use the neox-train that wrote it, or delete it and {_MAKE} the dataset again"
        )
    try:
        return Manifest.model_validate(raw)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"])
        raise DataError(
            f"{path} is damaged ({place}: {first['msg']}); delete it and {_MAKE} the dataset again"
        ) from error
