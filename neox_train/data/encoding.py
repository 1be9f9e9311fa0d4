"""The encoding pass: every document to its split's shards, in batches of bounded size."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Literal

import numpy as np

from neox_train.data.batches import Batch, LongBatch, make_batches
from neox_train.data.encoded import EncodedBatch
from neox_train.data.fast_encoder import FastEncoder, InexactEncodingError
from neox_train.data.long_encoding import LongEncoder
from neox_train.data.manifest import Dropped, Split
from neox_train.data.prefetching import prefetch
from neox_train.data.progress import show_progress
from neox_train.data.shards import SplitWriter, store_dtype
from neox_train.data.survey import Corpus
from neox_train.data.tokenizer import TextTokenizer

Encoder = Literal["gigatoken", "tokenizers"]


@dataclass(frozen=True)
class Encoded:
    """What an encoding pass wrote."""

    splits: dict[str, Split]
    dropped: Dropped
    encoder: Encoder


def encode_corpus(
    corpus: Corpus,
    tokenizer: TextTokenizer,
    tokenizer_sha256: str,
    shard_path: Callable[[str, int], Path],
    report: Callable[[str], None],
    *,
    encoder: Encoder = "gigatoken",
) -> Encoded:
    """Write every document of ``corpus`` to the shards of its split, with gigatoken as long as it is exact.

    Raises StorageError where the disk is full; the unfinished shards are removed then.
    """

    def write(encode: Callable[[Sequence[str]], EncodedBatch]) -> tuple[dict[str, Split], Dropped]:
        return _write_splits(corpus, tokenizer, encode, tokenizer_sha256, shard_path)

    if encoder == "gigatoken":
        try:
            return Encoded(*write(FastEncoder(tokenizer).encode), "gigatoken")
        except InexactEncodingError as error:
            report(f"warning: {error}; the slower tokenizers library encodes this dataset")
    return Encoded(*write(tokenizer.encode), "tokenizers")


def _write_splits(
    corpus: Corpus,
    tokenizer: TextTokenizer,
    encode: Callable[[Sequence[str]], EncodedBatch],
    tokenizer_sha256: str,
    shard_path: Callable[[str, int], Path],
) -> tuple[dict[str, Split], Dropped]:
    """One pass; documents that give no token count as empty."""
    writers = {
        name: SplitWriter(
            lambda index, name=name: shard_path(name, index),  # type: ignore[misc]
            vocab_size=tokenizer.vocab_size,
            eod_id=tokenizer.eod_id,
            tokenizer_sha256=tokenizer_sha256,
        )
        for name in corpus.spec.splits.model_dump()
    }
    documents, tally = corpus.read()
    # Reading, encoding and writing go on side by side; a long document is encoded while it is written, hence the lock.
    encode = _one_at_a_time(encode)
    batches = prefetch(_encode(make_batches(documents, corpus.splitter), encode))
    long_encoder = LongEncoder(tokenizer, encode)
    without_token = 0
    try:
        with show_progress("encoding", corpus.num_bytes) as advance:
            for batch, encoded in batches:
                if isinstance(batch, LongBatch):
                    pieces = long_encoder.encode(batch.document)
                    without_token += not writers[batch.split].append_pieces(pieces, batch.num_bytes)
                else:
                    assert encoded is not None
                    without_token += int((np.diff(encoded.offsets) == 0).sum())
                    _append(batch, encoded, writers, tokenizer.eod_id, store_dtype(tokenizer.vocab_size))
                advance(batch.num_bytes)
        # Only now: until here the tally belongs to the thread that reads.
        tally.empty_documents += without_token
        return {name: writer.finish() for name, writer in writers.items()}, tally.dropped()
    finally:
        batches.close()
        for writer in writers.values():
            writer.close()


def _one_at_a_time(encode: Callable[[Sequence[str]], EncodedBatch]) -> Callable[[Sequence[str]], EncodedBatch]:
    lock = threading.Lock()

    def encode_alone(texts: Sequence[str]) -> EncodedBatch:
        with lock:
            return encode(texts)

    return encode_alone


def _encode(
    batches: Iterator[Batch | LongBatch], encode: Callable[[Sequence[str]], EncodedBatch]
) -> Iterator[tuple[Batch | LongBatch, EncodedBatch | None]]:
    """Yield batches with their ids, None for a long document, which the writer asks for piece by piece."""
    with closing(prefetch(batches)) as ready:
        for batch in ready:
            if isinstance(batch, LongBatch):
                yield batch, None
            else:
                yield batch, encode([document.text for document in batch.documents])


def _append(batch: Batch, encoded: EncodedBatch, writers: dict[str, SplitWriter], eod_id: int, dtype: np.dtype) -> None:
    """Give every run of neighbours of one split to its writer at once, each document closed by ``eod_id``.

    Ids are narrowed to the store's ``dtype`` first, which halves what is moved; one that does not fit is refused by
    the writer.
    """
    lengths = np.diff(encoded.offsets)
    kept = np.flatnonzero(lengths)
    ids = encoded.ids.astype(dtype) if encoded.ids.max(initial=0) <= np.iinfo(dtype).max else encoded.ids
    tokens = np.insert(ids, encoded.offsets[1:][kept], eod_id)
    lengths = lengths[kept] + 1
    ends = np.concatenate([[0], np.cumsum(lengths)])
    first = 0
    for name, run in groupby(kept.tolist(), key=batch.splits.__getitem__):
        text_bytes = [batch.documents[place].num_bytes for place in run]
        last = first + len(text_bytes)
        writers[name].append_documents(tokens[ends[first] : ends[last]], lengths[first:last], sum(text_bytes))
        first = last
