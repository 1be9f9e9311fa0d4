"""Tokenizers in other formats as a Hugging Face tokenizer: GPT-2's files, tiktoken's, plain bytes."""

from __future__ import annotations

import base64
import binascii
from pathlib import Path
from typing import TYPE_CHECKING

from neox_train.errors import DataError

if TYPE_CHECKING:
    from tokenizers import Tokenizer

PATTERNS = {
    "gpt2": r"'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+",
    "cl100k_base": (
        r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|"
        r"\s*[\r\n]+|\s+(?!\S)|\s+"
    ),
    "o200k_base": (
        r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|"
        r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|"
        r"\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
    ),
}
"""Regular expressions that cut text into the pieces that are encoded, by tiktoken's name of the encoding."""


def read_gpt2(vocabulary: Path, merges: Path, eod_token: str) -> Tokenizer:
    """The byte-level BPE of a ``vocab.json`` and a ``merges.txt``; raises DataError where they are not such a pair."""
    from tokenizers import Tokenizer, models

    try:
        for path in (vocabulary, merges):
            path.read_bytes()
        tokenizer = Tokenizer(models.BPE.from_file(str(vocabulary), str(merges)))
    except OSError as error:
        raise DataError(f"{error.filename} cannot be read ({error.strerror}); correct the path") from error
    except Exception as error:
        # The library raises plain Exception for whatever its parser finds wrong.
        raise DataError(
            f"{vocabulary} and {merges} are no GPT-2 vocabulary and merges ({first_line(error)}); correct the paths"
        ) from error
    return _finish(tokenizer, PATTERNS["gpt2"], eod_token)


def read_tiktoken(path: Path, pattern: str, eod_token: str, eod_id: int | None = None) -> Tokenizer:
    """The tokenizer of a ``.tiktoken`` rank file; ``pattern`` is a name of PATTERNS or a regular expression.

    The end-of-document token gets ``eod_id``, else the id after the last rank. Raises DataError for another file.
    """
    from tokenizers import Tokenizer, models

    ranks = _read_ranks(path)
    letters = byte_letters()
    vocabulary = {"".join(letters[byte] for byte in token): rank for token, rank in ranks.items()}
    merges = [
        _spell_pair(_split(token, ranks, path), letters)
        for token, rank in sorted(ranks.items(), key=lambda entry: entry[1])
        if len(token) > 1
    ]
    vocabulary[eod_token] = max(ranks.values()) + 1 if eod_id is None else eod_id
    if len(set(vocabulary.values())) < len(vocabulary):
        raise DataError(f"{path}: id {eod_id} is taken by a token of the file; give another end-of-document id")
    tokenizer = Tokenizer(models.BPE(vocabulary, merges, ignore_merges=True))
    return _finish(tokenizer, PATTERNS.get(pattern, pattern), eod_token)


def make_byte_tokenizer(eod_token: str) -> Tokenizer:
    """One token a byte, its id the byte's value, and the end-of-document token 256."""
    from tokenizers import Tokenizer, models

    vocabulary = {letter: byte for byte, letter in enumerate(byte_letters())}
    return _finish(Tokenizer(models.BPE(vocabulary, [])), PATTERNS["gpt2"], eod_token)


def make_character_tokenizer(eod_token: str) -> Tokenizer:
    """GPT-NeoX's ``CharLevelTokenizer``: as its, an id is a byte's value in UTF-8, and the end-of-document token is 0.

    A NUL in text, which ends a document there, is id 256.
    """
    from tokenizers import Tokenizer, models

    vocabulary = {letter: byte for byte, letter in enumerate(byte_letters()) if byte}
    vocabulary |= {byte_letters()[0]: 256, eod_token: 0}
    return _finish(Tokenizer(models.BPE(vocabulary, [])), PATTERNS["gpt2"], eod_token)


def byte_letters() -> list[str]:
    """The printable letter that byte-level vocabularies write for each byte: itself where it is printable in Latin-1,
    else the next of the letters from U+0100 on.
    """
    printable = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    others = iter(range(0x100, 0x200))
    return [chr(byte if byte in printable else next(others)) for byte in range(256)]


def _finish(tokenizer: Tokenizer, pattern: str, eod_token: str) -> Tokenizer:
    from tokenizers import Regex, decoders, pre_tokenizers

    try:
        split = pre_tokenizers.Split(Regex(pattern), "isolated")
    except Exception as error:
        raise DataError(
            f"the pattern {pattern!r} is no regular expression ({first_line(error)}); correct it"
        ) from error
    by_regex = pre_tokenizers.ByteLevel(add_prefix_space=False)
    by_split = pre_tokenizers.Sequence([split, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    tokenizer.pre_tokenizer = by_regex if pattern == PATTERNS["gpt2"] else by_split
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([eod_token])
    return tokenizer


def first_line(error: Exception) -> str:
    """What a library's message begins with, or the error's name."""
    return (str(error).splitlines() or [type(error).__name__])[0]


def _read_ranks(path: Path) -> dict[bytes, int]:
    ranks: dict[bytes, int] = {}
    number = 0
    try:
        for line in path.read_bytes().splitlines():
            number += 1
            if line:
                token, rank = line.split()
                ranks[base64.b64decode(token, validate=True)] = int(rank)
    except OSError as error:
        raise DataError(f"{path} cannot be read ({error.strerror}); correct the path") from error
    except (ValueError, binascii.Error) as error:
        raise DataError(
            f"{path} line {number}: a token in base64 and its rank are wanted; fetch the file again"
        ) from error
    missing = [byte for byte in range(256) if bytes([byte]) not in ranks]
    if missing or len(set(ranks.values())) < len(ranks):
        raise DataError(f"{path} is no rank file: every byte and no rank twice is wanted; fetch the file again")
    return ranks


def _spell_pair(pair: tuple[bytes, bytes], letters: list[str]) -> tuple[str, str]:
    first, second = pair
    return "".join(letters[byte] for byte in first), "".join(letters[byte] for byte in second)


def _split(token: bytes, ranks: dict[bytes, int], path: Path) -> tuple[bytes, bytes]:
    """The two tokens a token is merged from: what merging its bytes in order of rank leaves before the last merge."""
    rank = ranks[token]
    parts = [token[place : place + 1] for place in range(len(token))]
    while len(parts) > 2:
        found = [(ranks.get(parts[place] + parts[place + 1], rank), place) for place in range(len(parts) - 1)]
        best, place = min(found)
        if best >= rank:
            break
        parts[place : place + 2] = [parts[place] + parts[place + 1]]
    if len(parts) > 2:
        raise DataError(f"{path}: {token!r}, rank {rank}, cannot be merged from earlier tokens; fetch the file again")
    return parts[0], parts[1]
