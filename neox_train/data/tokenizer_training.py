"""Training a byte-level BPE tokenizer on text."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tokenizers import Tokenizer


def train_byte_level_bpe(texts: Iterable[str], *, vocab_size: int, eod_token: str) -> Tokenizer:
    """Train a BPE of at most ``vocab_size`` tokens, ``eod_token`` (id 0) and the 256 bytes among them.

    Nothing normalises the text, so decoding gives it back exactly. The same texts give the same tokenizer. A small
    corpus can have too few pairs to merge: the vocabulary is then smaller.
    """
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size,
        special_tokens=[eod_token],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(iter(texts), trainer)
    return tokenizer
