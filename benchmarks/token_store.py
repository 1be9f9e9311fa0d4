"""A token store made in seconds: Zipf-distributed ids in documents, so that loader and loss have real work."""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np

from neox_train.config.layout import DatasetFolder
from neox_train.data.manifest import Manifest, Sources, content_digest
from neox_train.data.shards import SplitWriter, store_dtype

_DOCUMENT_TOKENS = 1000
_END_OF_DOCUMENT = 0


def write_store(folder: Path, *, vocab_size: int, train_tokens: int, validation_tokens: int) -> Path:
    """Write a dataset folder that ``data_path`` can name; nothing is done where it is there already."""
    dataset = DatasetFolder(folder)
    if (folder / "manifest.json").exists():
        return folder
    folder.mkdir(parents=True, exist_ok=True)
    dataset.tokenizer.write_text("{}")
    tokenizer_sha256 = hashlib.sha256(b"{}").hexdigest()
    random = np.random.default_rng(1)
    splits = {}
    for name, tokens in (("train", train_tokens), ("validation", validation_tokens), ("test", 2 * _DOCUMENT_TOKENS)):
        writer = SplitWriter(
            lambda index, name=name: dataset.shard(name, index),  # type: ignore[misc]
            vocab_size=vocab_size,
            eod_id=_END_OF_DOCUMENT,
            tokenizer_sha256=tokenizer_sha256,
        )
        for _ in range(tokens // _DOCUMENT_TOKENS):
            ids = 1 + random.zipf(1.2, _DOCUMENT_TOKENS) % (vocab_size - 1)
            writer.append(ids.astype(np.int64), text_bytes=4 * _DOCUMENT_TOKENS)
        splits[name] = writer.finish()
    dtype = store_dtype(vocab_size).name
    digest = content_digest(
        tokenizer_sha256=tokenizer_sha256, vocab_size=vocab_size, dtype=dtype, eod_id=_END_OF_DOCUMENT, splits=splits
    )
    Manifest(
        digest=digest,
        vocab_size=vocab_size,
        dtype=dtype,
        eod_token="<|endoftext|>",
        eod_id=_END_OF_DOCUMENT,
        tokenizer_sha256=tokenizer_sha256,
        splits=splits,
        sources=Sources(files=0, bytes=0, digest=""),
    ).write(folder)
    return folder
