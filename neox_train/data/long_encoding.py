"""Encoding one long document piece by piece, its ids going to a file: memory stays at a few pieces."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import islice

import numpy as np

from neox_train.data import limits
from neox_train.data.coverage import Coverage
from neox_train.data.cutting import can_cut, cut_document
from neox_train.data.documents import AnyDocument, UnfitDocumentError
from neox_train.data.encoded import EncodedBatch
from neox_train.data.tokenizer import TextTokenizer

_PIECES_AT_ONCE = 8
_NEIGHBOURHOOD_CHARACTERS = 256


class LongEncoder:
    """Ids of long documents, equal to those of the whole text."""

    def __init__(
        self, tokenizer: TextTokenizer, encode: Callable[[Sequence[str]], EncodedBatch], coverage: Coverage
    ) -> None:
        self._tokenizer = tokenizer
        self._coverage = coverage
        self._encode = encode
        self._can_cut: bool | None = None

    def encode(self, document: AnyDocument) -> Iterator[np.ndarray]:
        """Yield the document's ids in order, without end-of-document token.

        Raises UnfitDocumentError where the text is longer than is encoded at once and has no place where it may be
        cut, and where the tokenizer would leave out characters.
        """
        if self._can_cut is None:
            self._can_cut = can_cut(self._tokenizer.to_json())
        if not self._can_cut:
            if document.num_bytes > limits.MAX_UNCUT_BYTES:
                raise UnfitDocumentError(
                    f"{document.place}: the document has {document.num_bytes} bytes, and {self._tokenizer.name} is not "
                    f"known to start anew anywhere in a text; up to {limits.MAX_UNCUT_BYTES} bytes are encoded at "
                    "once: split the document, or take a byte-level BPE tokenizer"
                )
            whole = ["".join(document.pieces())]
            self._require_whole(whole, document)
            yield self._encode(whole).ids
            return
        pieces = cut_document(document)
        before = ""
        while batch := list(islice(pieces, _PIECES_AT_ONCE)):
            for piece in batch:
                self._prove_cut(before[-_NEIGHBOURHOOD_CHARACTERS:], piece[:_NEIGHBOURHOOD_CHARACTERS], document)
                before = piece
            self._require_whole(batch, document)
            yield self._encode(batch).ids

    def _require_whole(self, pieces: Sequence[str], document: AnyDocument) -> None:
        if reason := self._coverage.explain_loss(pieces, self._tokenizer.name):
            raise UnfitDocumentError(f"{document.place}: {reason}")

    def _prove_cut(self, left: str, right: str, document: AnyDocument) -> None:
        """Encode the neighbourhood of a cut both ways: the rule is proved, the library that it speaks of may change."""
        whole, *halves = self._tokenizer.encode_batch([left + right, left, right])
        if whole != [token for half in halves for token in half]:
            raise UnfitDocumentError(
                f"{document.place}: {self._tokenizer.name} reads {left[-20:] + right[:20]!r} otherwise when it is cut; "
                "split the document"
            )
