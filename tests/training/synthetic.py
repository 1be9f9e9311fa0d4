"""A small token store and a run folder for tests: text-like enough that a tiny model learns from it."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import numpy as np

from neox_train.config.layout import DatasetFolder, RunFolder
from neox_train.config.load import load_config, write_config
from neox_train.config.schema import NeoxConfig
from neox_train.data.manifest import Manifest, Sources, content_digest
from neox_train.data.shards import SplitWriter

CASES = Path(__file__).resolve().parents[1] / "cases"
VOCAB_SIZE = 97
END_OF_DOCUMENT = 0


def write_dataset(folder: Path, *, train_tokens: int = 20_000, validation_tokens: int = 3_000) -> DatasetFolder:
    """A store of documents in which each token mostly follows from the one before."""
    dataset = DatasetFolder(folder)
    folder.mkdir(parents=True, exist_ok=True)
    dataset.tokenizer.write_text("{}")
    tokenizer_sha256 = hashlib.sha256(b"{}").hexdigest()
    random = np.random.default_rng(7)
    splits = {}
    for name, tokens in (("train", train_tokens), ("validation", validation_tokens), ("test", 500)):
        writer = SplitWriter(
            lambda index, name=name: dataset.shard(name, index),  # type: ignore[misc]
            vocab_size=VOCAB_SIZE,
            eod_id=END_OF_DOCUMENT,
            tokenizer_sha256=tokenizer_sha256,
        )
        while tokens > 0:
            document = _write_document(random)
            writer.append(document, text_bytes=4 * len(document))
            tokens -= len(document) + 1
        splits[name] = writer.finish()
    digest = content_digest(
        tokenizer_sha256=tokenizer_sha256,
        vocab_size=VOCAB_SIZE,
        dtype="uint16",
        eod_id=END_OF_DOCUMENT,
        splits=splits,
    )
    Manifest(
        digest=digest,
        vocab_size=VOCAB_SIZE,
        dtype="uint16",
        eod_token="<|endoftext|>",
        eod_id=END_OF_DOCUMENT,
        tokenizer_sha256=tokenizer_sha256,
        splits=splits,
        sources=Sources(files=0, bytes=0, digest=""),
    ).write(folder)
    return dataset


def write_run(folder: Path, dataset: DatasetFolder, *, world_size: int = 1, **changes: Any) -> RunFolder:
    """A run folder with config.yml: the tiny model of the cases, with ``changes`` laid over it."""
    run = RunFolder(folder)
    write_config(resolve(dataset, run, world_size=world_size, **changes), run.config_file)
    return run


def resolve(dataset: DatasetFolder, run: RunFolder, *, world_size: int = 1, **changes: Any) -> NeoxConfig:
    """The configuration ``write_run`` writes."""
    overrides = {
        "data_path": str(dataset.path),
        "save": str(run.checkpoints),
        "load": str(run.checkpoints),
        "make_vocab_size_divisible_by": 16,
        **changes,
    }
    config = load_config([CASES / "base.yml", CASES / "optimizer.yml"], overrides=overrides, world_size=world_size)
    return config.with_vocab_size(VOCAB_SIZE)


def _write_document(random: np.random.Generator) -> np.ndarray:
    length = int(random.integers(20, 200))
    ids = np.empty(length, dtype=np.int64)
    ids[0] = random.integers(1, VOCAB_SIZE)
    for place in range(1, length):
        follows = random.random() < 0.8
        ids[place] = (ids[place - 1] * 5 + 3) % (VOCAB_SIZE - 1) + 1 if follows else random.integers(1, VOCAB_SIZE)
    return ids
