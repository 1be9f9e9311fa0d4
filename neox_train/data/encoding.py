"""The encoding pass: every document to its split's shards, in batches of bounded size."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import numpy as np

from neox_train.data.documents import Document, Tally
from neox_train.data.manifest import Split
from neox_train.data.shards import SplitWriter
from neox_train.data.splits import Splitter
from neox_train.data.tokenizer import TextTokenizer

_BATCH_BYTES = 1 << 22
_BATCH_DOCUMENTS = 1024


def write_splits(
    documents: Iterable[Document],
    tally: Tally,
    *,
    names: Iterable[str],
    splitter: Splitter,
    tokenizer: TextTokenizer,
    tokenizer_sha256: str,
    shard_path: Callable[[str, int], Path],
    advance: Callable[[int], None],
) -> dict[str, Split]:
    """Write every document's ids to the shards of its split; documents that give no token count as empty.

    Raises StorageError where the disk is full; the unfinished shards are removed then.
    """
    writers = {
        name: SplitWriter(
            lambda index, name=name: shard_path(name, index),  # type: ignore[misc]
            vocab_size=tokenizer.vocab_size,
            eod_id=tokenizer.eod_id,
            tokenizer_sha256=tokenizer_sha256,
        )
        for name in names
    }
    try:
        for batch in _batch(documents):
            encoded = tokenizer.encode_batch([document.text for document in batch])
            for document, ids in zip(batch, encoded, strict=True):
                if ids:
                    writers[splitter.split_of(document.text)].append(np.array(ids, dtype=np.uint32), document.num_bytes)
                else:
                    tally.empty_documents += 1
            advance(sum(document.num_bytes for document in batch))
        return {name: writer.finish() for name, writer in writers.items()}
    finally:
        for writer in writers.values():
            writer.close()


def _batch(documents: Iterable[Document]) -> Iterator[list[Document]]:
    batch: list[Document] = []
    size = 0
    for document in documents:
        batch.append(document)
        size += document.num_bytes
        if size >= _BATCH_BYTES or len(batch) >= _BATCH_DOCUMENTS:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch
