"""Importing .bin/.idx token files as a dataset of this project."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from neox_train.data.installation import describe_tokens, install_dataset, scratch_folder
from neox_train.data.manifest import Dropped, Manifest, Split
from neox_train.data.mmap_files import MmapTokens
from neox_train.data.shards import SplitWriter
from neox_train.data.sources import SourceFile, fingerprint_sources, summarise_sources, write_sources
from neox_train.data.tokenizer import END_OF_DOCUMENT, TextTokenizer, load_tokenizer
from neox_train.errors import DataError
from neox_train.files import sha256_file, storage_errors
from neox_train.locks import hold_lock

if TYPE_CHECKING:
    from neox_train.config.layout import DatasetFolder

SPLITS = ("train", "validation", "test")


def import_mmap(
    prefixes: Mapping[str, Path],
    tokenizer_file: Path,
    folder: DatasetFolder,
    *,
    eod_token: str = END_OF_DOCUMENT,
    report: Callable[[str], None] = print,
) -> Manifest:
    """Write a dataset folder from one .bin/.idx prefix a split; splits without a prefix stay empty.

    Items that do not end with the end-of-document token get one, empty items are dropped; both are counted. The bytes
    of text are those the tokenizer decodes. Raises DataError for ids outside the vocabulary, for an item with an
    end-of-document token inside, and where ``folder`` holds a dataset already.
    """
    tokenizer = load_tokenizer(tokenizer_file, eod_token)
    pairs = {split: MmapTokens.open(prefix) for split, prefix in prefixes.items()}
    with hold_lock(folder.lock, note="data import"), scratch_folder(folder) as scratch:
        if folder.manifest.exists():
            raise DataError(f"{folder.path} holds a dataset already; name another folder, or remove that one")
        with storage_errors(folder.path):
            shutil.copyfile(tokenizer_file, scratch.tokenizer)
        tokenizer_sha256 = sha256_file(scratch.tokenizer)
        items = _Items(tokenizer, tokenizer_sha256, scratch)
        splits = {name: items.write(name, pairs.get(name, ()), prefixes.get(name)) for name in SPLITS}
        records = fingerprint_sources(_list_files(prefixes))
        write_sources(scratch.path, records)
        manifest = describe_tokens(
            tokenizer,
            tokenizer_sha256,
            splits,
            sources=summarise_sources(records),
            dropped=Dropped(empty_documents=items.empty),
        )
        install_dataset(scratch, folder, manifest)
    if items.unclosed:
        report(f"{items.unclosed} documents had no end-of-document token and got one")
    return manifest


class _Items:
    """Writes items of token files to shards and counts what it had to mend."""

    def __init__(self, tokenizer: TextTokenizer, tokenizer_sha256: str, scratch: DatasetFolder) -> None:
        self._tokenizer = tokenizer
        self._tokenizer_sha256 = tokenizer_sha256
        self._scratch = scratch
        self.empty = 0
        self.unclosed = 0

    def write(self, split: str, items: Iterable[np.ndarray], prefix: Path | None) -> Split:
        writer = SplitWriter(
            lambda index: self._scratch.shard(split, index),
            vocab_size=self._tokenizer.vocab_size,
            eod_id=self._tokenizer.eod_id,
            tokenizer_sha256=self._tokenizer_sha256,
        )
        try:
            for number, item in enumerate(items):
                ids = self._strip(item, f"{prefix}.bin item {number}")
                if len(ids):
                    writer.append(ids, len(self._tokenizer.decode(ids.tolist()).encode("utf-8")))
                else:
                    self.empty += 1
            return writer.finish()
        finally:
            writer.close()

    def _strip(self, item: np.ndarray, place: str) -> np.ndarray:
        if len(item) and (int(item.min()) < 0 or int(item.max()) >= self._tokenizer.vocab_size):
            raise DataError(
                f"{place}: ids go from {int(item.min())} to {int(item.max())}, {self._tokenizer.name} has "
                f"{self._tokenizer.vocab_size}; give the tokenizer that made the files"
            )
        closed = len(item) > 0 and item[-1] == self._tokenizer.eod_id
        self.unclosed += len(item) > 0 and not closed
        ids = item[:-1] if closed else item
        if (ids == self._tokenizer.eod_id).any():
            raise DataError(
                f"{place} has an end-of-document token inside; write the files anew with one document an item"
            )
        return ids


def _list_files(prefixes: Mapping[str, Path]) -> list[SourceFile]:
    paths = [prefix.with_name(prefix.name + suffix) for prefix in prefixes.values() for suffix in (".bin", ".idx")]
    return [SourceFile(str(path), path, "text") for path in paths]
