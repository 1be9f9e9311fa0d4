"""The tokens a run was trained on, as an export needs them: their tokenizer, and text to compare the export on."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from neox_train.checkpoint.hf_tokenizer import TokenizerSource
from neox_train.config.layout import DatasetFolder
from neox_train.config.schema import NeoxConfig
from neox_train.data.identity import identify_data, main_path
from neox_train.data.manifest import load_manifest
from neox_train.data.mmap_files import MmapTokens
from neox_train.data.neox_order import ItemStream, split_items
from neox_train.data.pair_files import is_pair
from neox_train.data.store import TokenStore
from neox_train.data.vocabulary import find_pair_tokenizer
from neox_train.data.windows import TokenSource
from neox_train.errors import DataError
from neox_train.files import sha256_file

_WINDOWS = 4
_SPLITS = ("validation", "test", "train")


@dataclass(frozen=True, kw_only=True, slots=True)
class TrainedText:
    """What a run's configuration says it was trained on."""

    path: Path
    """Dataset folder, or prefix of .bin/.idx files."""
    digest: str
    """As the trainer's record keeps it; of a blend it covers every set."""
    vocab_size: int
    tokenizer: TokenizerSource
    splits: Callable[[], Iterable[tuple[str, TokenSource]]]
    """Names and tokens of the splits, the best to compare on first."""


def find_trained_text(config: NeoxConfig) -> TrainedText:
    """Raises ConfigError or DataError where the tokens, their tokenizer or its end-of-document token are not known."""
    path = Path(main_path(config))
    if is_pair(path):
        return _describe_pair(config, path)
    dataset, manifest = DatasetFolder(path), load_manifest(path)
    if sha256_file(dataset.tokenizer) != manifest.tokenizer_sha256:
        raise DataError(f"{dataset.tokenizer} is not the tokenizer of its manifest; tokenize the dataset again")
    return TrainedText(
        path=path,
        digest=identify_data(config)["dataset"],
        vocab_size=manifest.vocab_size,
        tokenizer=TokenizerSource(
            file=dataset.tokenizer,
            sha256=manifest.tokenizer_sha256,
            end_of_document=manifest.eod_token,
            end_of_document_id=manifest.eod_id,
        ),
        splits=lambda: list_splits(path),
    )


def list_splits(folder: Path) -> Iterator[tuple[str, TokenSource]]:
    """The splits of a dataset folder that it has."""
    there = load_manifest(folder).splits
    return ((name, TokenStore.open(folder, name)) for name in _SPLITS if name in there)


def choose_windows(splits: Iterable[tuple[str, TokenSource]], seq_length: int) -> tuple[str, torch.Tensor]:
    """The first split with text, and int64 [up to 4, length + 1] windows of it, spread evenly.

    Length is seq_length, or less where the split is. Raises DataError where no split has two tokens.
    """
    for name, tokens in splits:
        length = min(seq_length, tokens.num_tokens - 1)
        if length < 1:
            continue
        last = tokens.num_tokens - length - 1
        count = min(_WINDOWS, tokens.num_tokens // (length + 1))
        starts = [last * index // max(1, count - 1) for index in range(count)]
        rows = [torch.from_numpy(tokens.read(start, start + length + 1).astype("int64")) for start in starts]
        return name, torch.stack(rows)
    raise DataError("the run's dataset holds no text to compare the export on; give one with at least two tokens")


def _describe_pair(config: NeoxConfig, prefix: Path) -> TrainedText:
    found = find_pair_tokenizer(
        config,
        f"an export needs the tokenizer, which the run's .bin/.idx files {prefix} do not hold",
        "set `vocab_file` to their tokenizer.json in the run's config.yml",
    )
    tokenizer = found.load()
    digests = identify_data(config)
    return TrainedText(
        path=prefix,
        digest=digests["dataset"],
        vocab_size=config.vocab_size or found.vocab_size,
        tokenizer=TokenizerSource(
            file=found.file or Path(tokenizer.name),
            content="" if found.file else tokenizer.to_json(),
            sha256=digests["tokenizer"],
            end_of_document=tokenizer.eod_token,
            end_of_document_id=tokenizer.eod_id,
        ),
        splits=lambda: _list_pair_splits(config, prefix),
    )


def _list_pair_splits(config: NeoxConfig, prefix: Path) -> Iterator[tuple[str, TokenSource]]:
    tokens = MmapTokens.open(prefix)
    items = split_items(config.split, len(tokens))
    return ((name, ItemStream(tokens, np.arange(items[name].start, items[name].stop))) for name in _SPLITS)
