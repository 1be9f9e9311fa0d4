"""Documents in batches for the encoder, each with the name of its split."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field

from neox_train.data import limits
from neox_train.data.documents import AnyDocument, Document, LongDocument
from neox_train.data.splits import Splitter

_BATCH_BYTES = 1 << 23
_BATCH_DOCUMENTS = 1 << 14


@dataclass(slots=True)
class Batch:
    """Neighbours of the corpus that are encoded at once."""

    documents: list[Document] = field(default_factory=list)
    splits: list[str] = field(default_factory=list)
    num_bytes: int = 0

    def without(self, refused: Collection[int]) -> Batch:
        """The batch without the documents at these places; its bytes stay what was read."""
        kept = [place for place in range(len(self.documents)) if place not in refused]
        return Batch([self.documents[place] for place in kept], [self.splits[place] for place in kept], self.num_bytes)


@dataclass(frozen=True, slots=True)
class LongBatch:
    """One document that is encoded in pieces."""

    document: AnyDocument
    split: str

    @property
    def num_bytes(self) -> int:
        """UTF-8 bytes of its text."""
        return self.document.num_bytes


def make_batches(documents: Iterable[AnyDocument], splitter: Splitter) -> Iterator[Batch | LongBatch]:
    """Yield all documents in order; splits are found here, as hashing a text leaves the other threads at work."""
    batch = Batch()
    for document in documents:
        split = splitter.only or splitter.split_of(document.pieces())
        if isinstance(document, LongDocument) or document.num_bytes > limits.LONG_DOCUMENT_BYTES:
            if batch.documents:
                yield batch
                batch = Batch()
            yield LongBatch(document, split)
            continue
        batch.documents.append(document)
        batch.splits.append(split)
        batch.num_bytes += document.num_bytes
        if batch.num_bytes >= _BATCH_BYTES or len(batch.documents) >= _BATCH_DOCUMENTS:
            yield batch
            batch = Batch()
    if batch.documents:
        yield batch
