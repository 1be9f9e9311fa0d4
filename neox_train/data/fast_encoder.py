"""The gigatoken library as an encoder: many times faster than ``tokenizers``, and used only where proved exact."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from typing import Any

import numpy as np

from neox_train.data.encoded import EncodedBatch
from neox_train.data.tokenizer import TextTokenizer

_FIRST_SAMPLE_BYTES = 1 << 16
_LATER_SAMPLE_BYTES = 1 << 12
_PIECE_CHARACTERS = 2048
_ADVERSARIAL = (
    "",
    " ",
    "  leading\tand trailing  \r\n\n \n",
    "\x00\x01\x1f\x7f\x85\xa0\u2028\u200b\ufeff",
    "🙂🏳️‍🌈👩🏽‍🚀 é e\u0301 ﬁ Å ｆｕｌｌ 日本語 עברית हिन्दी \U0010ffff \ud7ff\ue000",
    "\\ud83d\\ude42 \\u0000 \\udc00",
    "x" * 5_000,
    "日" * 1_000,
    " " * 1_000 + "\n" * 300 + "\t" * 70,
    "1234567890" * 40 + " 3.14e-10 0x7fff",
    "don't we'll I'M they'Re 'sss ''' don’t",
    "snake_case camelCase ALLCAPS $x+=y<<2; // ---- ==== ####",
)


class InexactEncodingError(Exception):
    """The fast encoder gave other ids than ``tokenizers``; the message shows for which text."""


class FastEncoder:
    """Encodes batches with gigatoken, and compares samples of the corpus with the slow tokenizer as it goes.

    Several threads may encode at once.
    """

    def __init__(self, tokenizer: TextTokenizer) -> None:
        """Raises InexactEncodingError where gigatoken does not read this tokenizer, or reads it differently."""
        self._slow = tokenizer
        self._encoder = _load(tokenizer)
        self._sample_bytes = _FIRST_SAMPLE_BYTES
        names = tokenizer.special_tokens
        specials = [text for name in names for text in (name, f"a{name}b {name}", name[:-1])]
        self._compare([*_ADVERSARIAL, *specials])

    def encode(self, texts: Sequence[str]) -> EncodedBatch:
        """Ids of each text without end-of-document token.

        Raises InexactEncodingError where a sample of the texts differs, DataError as ``TextTokenizer.encode`` does.
        """
        self._compare(self._sample(texts))
        self._sample_bytes = _LATER_SAMPLE_BYTES
        encoded = self._encode(texts)
        self._slow.refuse_end_of_document(encoded, texts)
        return encoded

    def _encode(self, texts: Sequence[str]) -> EncodedBatch:
        layout = self._encoder.encode_batch(list(texts)).layout
        offsets = np.asarray(layout.offsets.data, dtype=np.int64)
        return EncodedBatch(np.asarray(layout.content.data)[offsets[0] : offsets[-1]], offsets - offsets[0])

    def _sample(self, texts: Sequence[str]) -> list[str]:
        """Pieces of documents chosen at random, bounded in size: the slow tokenizer must not set the pace.

        The texts themselves are the seed, so that the choice is the same whichever of several threads comes first.
        """
        chance = random.Random(f"{len(texts)} {texts[0][:_PIECE_CHARACTERS] if texts else None!r}")
        pieces: list[str] = []
        size = 0
        while size < self._sample_bytes and len(pieces) < len(texts):
            text = chance.choice(texts)
            start = chance.randrange(max(1, len(text) - _PIECE_CHARACTERS))
            pieces.append(text[start : start + _PIECE_CHARACTERS])
            size += len(pieces[-1]) + 1
        return pieces

    def _compare(self, texts: Sequence[str]) -> None:
        fast, slow = self._encode(texts), self._slow.encode(texts)
        for place, text in enumerate(texts):
            if not np.array_equal(fast[place], slow[place]):
                raise InexactEncodingError(f"gigatoken gives other ids than {self._slow.library} for {text[:40]!r}")


def _load(tokenizer: TextTokenizer) -> Any:
    """The gigatoken tokenizer of the same vocabulary, without the special tokens: in text they are text."""
    try:
        import gigatoken
    except ImportError as error:
        raise InexactEncodingError(f"gigatoken cannot be loaded ({error})") from error

    content = json.loads(tokenizer.to_json())
    left_out = {*tokenizer.special_tokens, tokenizer.eod_token}
    content["added_tokens"] = [token for token in content["added_tokens"] if token["content"] not in left_out]
    content |= {"post_processor": None, "truncation": None, "padding": None}
    try:
        return gigatoken.Tokenizer.from_json(json.dumps(content).encode("utf-8"))
    except Exception as error:
        # The library raises ValueError and others for whatever it does not read.
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise InexactEncodingError(f"gigatoken does not read this tokenizer ({reason})") from error
