"""A SentencePiece model as the data room uses it: sentencepiece itself encodes, so the ids are its own."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from neox_train.data.sentencepiece_model import load_processor, read_sentencepiece
from neox_train.data.tokenizer import TextTokenizer

if TYPE_CHECKING:
    from tokenizers import Tokenizer


class SentencePieceTokenizer(TextTokenizer):
    """Encodes by the library; decodes by the converted tokenizer.json, which the trained model goes with."""

    library = "sentencepiece"

    def __init__(self, converted: Tokenizer, processor: Any, eod_token: str, name: str) -> None:
        """``processor`` is a SentencePieceProcessor of the model that ``converted`` was made from."""
        super().__init__(converted, eod_token, name)
        self._processor = processor
        self._threads = len(os.sched_getaffinity(0))

    def _encode_batch(self, texts: list[str]) -> list[list[int]]:
        encoded: list[list[int]] = self._processor.encode(texts, num_threads=self._threads)
        return encoded


def load_sentencepiece(path: Path, eod_token: str, *, name: str | None = None) -> SentencePieceTokenizer:
    """Load a ``.model`` of kind BPE or unigram; raises DataError as ``read_sentencepiece``.

    ``name`` is how sentences call it where it is a copy.
    """
    name = name or str(path)
    converted = read_sentencepiece(path, eod_token, name=name)
    return SentencePieceTokenizer(converted, load_processor(path), eod_token, name)
