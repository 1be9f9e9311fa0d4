"""The encoding pass: every document to its split's shards, in batches of bounded size."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Literal

import numpy as np

from neox_train.data.batches import Batch, LongBatch, make_batches
from neox_train.data.coverage import Coverage
from neox_train.data.documents import Tally, UnfitDocumentError
from neox_train.data.encoded import ClosedBatch, EncodedBatch, close_documents
from neox_train.data.fast_encoder import FastEncoder, InexactEncodingError
from neox_train.data.long_encoding import LongEncoder
from neox_train.data.manifest import Dropped, Split
from neox_train.data.prefetching import hand_over_quickly, map_ahead, prefetch
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
            report(f"warning: {error}; the slower {tokenizer.library} library encodes this dataset")
    return Encoded(*write(tokenizer.encode), "tokenizers")


def _write_splits(
    corpus: Corpus,
    tokenizer: TextTokenizer,
    encode: Callable[[Sequence[str]], EncodedBatch],
    tokenizer_sha256: str,
    shard_path: Callable[[str, int], Path],
) -> tuple[dict[str, Split], Dropped]:
    """One pass; documents that give no token count as empty, those that the tokenizer does not fit as skipped."""
    writers = {
        name: SplitWriter(
            lambda index, name=name: shard_path(name, index),  # type: ignore[misc]
            vocab_size=tokenizer.vocab_size,
            eod_id=tokenizer.eod_id,
            tokenizer_sha256=tokenizer_sha256,
        )
        for name in corpus.spec.splits.model_dump()
    }
    dtype = store_dtype(tokenizer.vocab_size)

    def encode_batch(batch: Batch | LongBatch) -> _Closed | None:
        """None for a long document, which is encoded piece by piece while it is written."""
        if isinstance(batch, LongBatch):
            return None
        refused = _find_unfit(batch, coverage, tokenizer.name)
        if refused:
            batch = batch.without(refused)
        encoded = encode([document.text for document in batch.documents])
        return _Closed(batch, close_documents(encoded, tokenizer.eod_id, dtype), list(refused.values()))

    documents, tally = corpus.read()
    coverage = Coverage(tokenizer.to_json())
    long_encoder = LongEncoder(tokenizer, encode, coverage)
    without_token = 0
    # One of its own: until the last document is read the other belongs to the thread that reads.
    unfit = Tally(skip_errors=tally.skip_errors)
    try:
        # Reading, encoding and writing go on side by side; a second batch is at work where the first leaves cores idle.
        with (
            hand_over_quickly(),
            closing(prefetch(make_batches(documents, corpus.splitter))) as batches,
            closing(map_ahead(encode_batch, batches)) as results,
            show_progress("encoding", corpus.num_bytes) as advance,
        ):
            for batch, closed in results:
                if isinstance(batch, LongBatch):
                    pieces = long_encoder.encode(batch.document)
                    try:
                        without_token += not writers[batch.split].append_pieces(pieces, batch.num_bytes)
                    except UnfitDocumentError as error:
                        unfit.reject(str(error))
                else:
                    assert closed is not None
                    for sentence in closed.unfit:
                        unfit.reject(sentence)
                    without_token += len(closed.batch.documents) - len(closed.tokens.lengths)
                    _append(closed.batch, closed.tokens, writers)
                advance(batch.num_bytes)
        tally.empty_documents += without_token
        tally.add_skipped(unfit)
        return {name: writer.finish() for name, writer in writers.items()}, tally.dropped()
    finally:
        for writer in writers.values():
            writer.close()


@dataclass(frozen=True, slots=True)
class _Closed:
    batch: Batch
    """The documents that were encoded."""
    tokens: ClosedBatch
    unfit: list[str]
    """Why each of the others was not."""


def _find_unfit(batch: Batch, coverage: Coverage, tokenizer_name: str) -> dict[int, str]:
    """Why documents of a batch would lose text, by their place in it."""
    return {
        place: f"{document.place}: {reason}"
        for place, document in enumerate(batch.documents if coverage.can_lose else ())
        if (reason := coverage.explain_loss([document.text], tokenizer_name))
    }


def _append(batch: Batch, closed: ClosedBatch, writers: dict[str, SplitWriter]) -> None:
    """Give every run of neighbours of one split to its writer at once."""
    ends = np.concatenate([[0], np.cumsum(closed.lengths)])
    first = 0
    for name, run in groupby(closed.places, key=batch.splits.__getitem__):
        text_bytes = [batch.documents[place].num_bytes for place in run]
        last = first + len(text_bytes)
        writers[name].append_documents(
            closed.tokens[ends[first] : ends[last]], closed.lengths[first:last], sum(text_bytes)
        )
        first = last
