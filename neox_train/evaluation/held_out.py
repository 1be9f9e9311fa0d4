"""The held-out documents of a dataset: which are scored, how many bytes of text they are."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from neox_train.data.manifest import Manifest
from neox_train.data.store import TokenStore
from neox_train.errors import UserError


@dataclass(frozen=True)
class HeldOut:
    """The first ``num_documents`` documents of a split and the UTF-8 bytes of their text."""

    split: str
    store: TokenStore
    tokenizer: Any
    eod_id: int
    num_documents: int
    num_bytes: int
    note: str | None = None
    """A sentence where decoding does not give back the very bytes that were tokenised."""

    def documents(self) -> Iterator[np.ndarray]:
        """Token ids of each document; each closes with the end-of-document token."""
        for index in range(self.num_documents):
            yield self.store.document(index)

    def texts(self) -> Iterator[bytes]:
        """UTF-8 text of each document, decoded from its tokens."""
        for document in self.documents():
            yield decode_document(self.tokenizer, document, self.eod_id)

    @property
    def lengths(self) -> list[int]:
        """Tokens of each document."""
        return np.diff(self.store.document_offsets[: self.num_documents + 1]).tolist()


def open_held_out(
    store: TokenStore, manifest: Manifest, tokenizer: Any, *, split: str, max_bytes: int | None
) -> HeldOut:
    """Take the documents of ``split`` in order until ``max_bytes`` of text (at least one; None takes all).

    A tokenizer that normalises text loses some of it: the bytes of a whole split are then the manifest's, those of the
    original text, and ``note`` says so. Raises UserError where the split is empty.
    """
    eod_id = manifest.eod_id
    if store.num_documents == 0:
        raise UserError(
            f"split {split} has no documents to evaluate on; raise its share under `splits:` or choose another split "
            "under `evaluation: split:`"
        )
    count, size = 0, 0
    for index in range(store.num_documents):
        text = decode_document(tokenizer, store.document(index), eod_id)
        if count and max_bytes is not None and size + len(text) > max_bytes:
            break
        count, size = count + 1, size + len(text)
    original = manifest.splits[split].bytes
    if count < store.num_documents or size == original:
        return HeldOut(split, store, tokenizer, eod_id, count, size)
    note = (
        f"The tokenizer normalises text: the documents have {original} bytes, their tokens decode to {size}. Bits per "
        "byte count the original bytes; xz compresses the decoded text."
    )
    return HeldOut(split, store, tokenizer, eod_id, count, original, note)


def decode_document(tokenizer: Any, document: np.ndarray, eod_id: int) -> bytes:
    """UTF-8 text of one document without its closing end-of-document token."""
    ids = document[:-1] if len(document) and document[-1] == eod_id else document
    text: str = tokenizer.decode(ids.tolist(), skip_special_tokens=False, clean_up_tokenization_spaces=False)
    return text.encode("utf-8")
