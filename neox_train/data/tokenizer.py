"""A tokenizer as the data room uses it: text in, ids out, and no text that turns into a control token."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from neox_train.data.encoded import EncodedBatch, flatten_ids
from neox_train.errors import DataError

if TYPE_CHECKING:
    from tokenizers import Tokenizer

END_OF_DOCUMENT = "<|endoftext|>"


class TextTokenizer:
    """A Hugging Face tokenizer that adds nothing, cuts nothing off, and reads special tokens in text as text."""

    library = "tokenizers"
    """The library that encodes."""

    def __init__(self, tokenizer: Tokenizer, eod_token: str, name: str) -> None:
        """``name`` is how sentences call it. Raises DataError where ``eod_token`` is not in the vocabulary."""
        eod_id = tokenizer.token_to_id(eod_token)
        if eod_id is None:
            raise DataError(
                f"{name} has no token {eod_token}; set `end_of_document` to its own "
                f"({', '.join(_special_tokens(tokenizer)) or 'it has no special tokens'})"
            )
        tokenizer.add_special_tokens([eod_token])
        tokenizer.encode_special_tokens = True
        tokenizer.no_truncation()
        tokenizer.no_padding()
        self._tokenizer = tokenizer
        self.eod_token = eod_token
        self.eod_id: int = eod_id
        self.name = name
        self.vocab_size: int = max(tokenizer.get_vocab(with_added_tokens=True).values()) + 1
        """Largest id plus one: ids with gaps between them count as a model must count them."""

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        """Ids of each text, without end-of-document token.

        Raises DataError where a text alone gives the end-of-document id, as a word-level vocabulary can.
        """
        encoded = self._encode_batch(list(texts))
        for text, ids in zip(texts, encoded, strict=True):
            if self.eod_id in ids:
                raise self._explain_end_inside(text)
        return encoded

    def _encode_batch(self, texts: list[str]) -> list[list[int]]:
        try:
            return [encoding.ids for encoding in self._tokenizer.encode_batch(texts, add_special_tokens=False)]
        except Exception as error:
            # The library raises plain Exception, for a word that is neither in the vocabulary nor has an unknown token.
            raise DataError(
                f"{self.name} does not encode the corpus ({error}); give its model an unknown token that is in its "
                "vocabulary, or take another tokenizer"
            ) from error

    def encode(self, texts: Sequence[str]) -> EncodedBatch:
        """The same as one array."""
        return flatten_ids(self.encode_batch(texts))

    def refuse_end_of_document(self, encoded: EncodedBatch, texts: Sequence[str]) -> None:
        """Raise DataError where a text alone gave the end-of-document id."""
        found = np.flatnonzero(encoded.ids == self.eod_id)
        if len(found):
            raise self._explain_end_inside(texts[int(np.searchsorted(encoded.offsets, found[0], side="right")) - 1])

    def _explain_end_inside(self, text: str) -> DataError:
        return DataError(
            f"{self.name} gives its end-of-document token for the text {text[:40]!r}...; "
            f"take {self.eod_token} out of its model's vocabulary and leave it an added token"
        )

    @property
    def special_tokens(self) -> list[str]:
        """Texts of the control tokens, the end-of-document token among them."""
        return [token.content for token in self._tokenizer.get_added_tokens_decoder().values() if token.special]

    def to_json(self) -> str:
        """The tokenizer as the content of a tokenizer.json."""
        return str(self._tokenizer.to_str())

    def decode(self, ids: Sequence[int]) -> str:
        """Text of ids, special tokens shown."""
        return str(self._tokenizer.decode([int(token) for token in ids], skip_special_tokens=False))


def load_tokenizer(path: Path, eod_token: str = END_OF_DOCUMENT, *, name: str | None = None) -> TextTokenizer:
    """Load a ``tokenizer.json``; raises DataError where it cannot be read or lacks ``eod_token``.

    ``name`` is how sentences call it where it is a copy.
    """
    name = name or str(path)
    from tokenizers import Tokenizer

    try:
        with open(path, "rb"):
            pass
        tokenizer = Tokenizer.from_file(str(path))
    except OSError as error:
        raise DataError(f"tokenizer {path} cannot be read ({error.strerror}); correct the path") from error
    except Exception as error:
        # The library raises plain Exception for whatever its parser finds wrong.
        raise DataError(
            f"{name} is no tokenizer.json of the Hugging Face tokenizers library ({error}); export it again"
        ) from error
    return TextTokenizer(tokenizer, eod_token, name)


def _special_tokens(tokenizer: Tokenizer) -> list[str]:
    return [token.content for token in tokenizer.get_added_tokens_decoder().values() if token.special][:8]
