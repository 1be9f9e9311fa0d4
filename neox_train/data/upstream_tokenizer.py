"""GPT-NeoX's ``tokenizer_type`` names: what each makes of ``vocab_file`` and ``merge_file``."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from neox_train.data.tokenizer import END_OF_DOCUMENT, TextTokenizer, load_tokenizer
from neox_train.data.tokenizer_formats import make_character_tokenizer, read_gpt2, read_tiktoken
from neox_train.errors import ConfigError, DataError

if TYPE_CHECKING:
    from tokenizers import Tokenizer

    from neox_train.config.schema import NeoxConfig

_CHARACTER_IDS = 512
_GPT2_PADDING = "<|padding|>"


@dataclass(frozen=True, slots=True)
class Encoding:
    """A published tiktoken encoding: ids in all, the end-of-document id, and the name of its pattern."""

    num_ids: int
    eod_id: int
    pattern: str


TIKTOKEN = {
    "gpt2": Encoding(50257, 50256, "gpt2"),
    "r50k_base": Encoding(50257, 50256, "gpt2"),
    "p50k_base": Encoding(50281, 50256, "gpt2"),
    "p50k_edit": Encoding(50284, 50256, "gpt2"),
    "cl100k_base": Encoding(100277, 100257, "cl100k_base"),
    "o200k_base": Encoding(200019, 199999, "o200k_base"),
    "o200k_harmony": Encoding(201088, 199999, "o200k_base"),
}
"""Encodings by tiktoken's names, special tokens counted. Source: tiktoken 0.12's own table."""


@dataclass(frozen=True, kw_only=True)
class UpstreamTokenizer:
    """What a configuration's tokenizer keys stand for."""

    vocab_size: int
    """Ids as GPT-NeoX counts them: the number that it pads."""
    eod_id: int
    load: Callable[[], TextTokenizer]
    """The tokenizer itself; may raise DataError where only its numbers are known."""
    file: Path | None = None
    """The tokenizer.json, where it is one."""


def find_tokenizer(config: NeoxConfig) -> UpstreamTokenizer | None:
    """The tokenizer of ``tokenizer_type``, ``vocab_file`` and ``merge_file``; None where its file is not named.

    Raises DataError for files that are not what the type reads.
    """
    kind, file = config.tokenizer_type.lower(), config.vocab_file
    if kind == "charleveltokenizer":
        return _describe(make_character_tokenizer(END_OF_DOCUMENT), "CharLevelTokenizer", vocab_size=_CHARACTER_IDS)
    if not file:
        return None
    if kind == "tiktokentokenizer":
        return _read_tiktoken(file)
    if kind == "spmtokenizer":
        return _read_sentencepiece(Path(file))
    if kind == "hfgpt2tokenizer":
        return _read_gpt2_folder(Path(file))
    if kind == "gpt2bpetokenizer" and config.merge_file:
        return _describe(read_gpt2(Path(file), Path(config.merge_file), END_OF_DOCUMENT), file)
    if kind == "gpt2bpetokenizer" and not _is_tokenizer_json(Path(file)):
        raise ConfigError(
            f"`vocab_file` {file} of a GPT2BPETokenizer needs `merge_file`; set it, or `tokenizer_type: HFTokenizer` "
            "with a tokenizer.json"
        )
    text = load_tokenizer(Path(file))
    return UpstreamTokenizer(vocab_size=text.vocab_size, eod_id=text.eod_id, load=lambda: text, file=Path(file))


def _describe(made: Tokenizer, name: str, *, eod: str = END_OF_DOCUMENT, vocab_size: int = 0) -> UpstreamTokenizer:
    text = TextTokenizer(made, eod, name)
    return UpstreamTokenizer(vocab_size=vocab_size or text.vocab_size, eod_id=text.eod_id, load=lambda: text)


def _read_tiktoken(file: str) -> UpstreamTokenizer:
    """A name that tiktoken knows, or the path of NAME.tiktoken, which has the ranks too."""
    path = Path(file)
    name = path.stem if path.suffix == ".tiktoken" else file
    encoding = TIKTOKEN.get(name)
    if encoding is None:
        raise ConfigError(
            f"`vocab_file` {file} is no encoding of tiktoken; name one of {', '.join(TIKTOKEN)}, or its .tiktoken file"
        )
    return UpstreamTokenizer(
        vocab_size=encoding.num_ids, eod_id=encoding.eod_id, load=partial(_load_ranks, path, encoding)
    )


def _load_ranks(path: Path, encoding: Encoding) -> TextTokenizer:
    if path.suffix != ".tiktoken":
        raise DataError(
            f"`vocab_file` {path} names an encoding and not its file; set it to the path of {path}.tiktoken"
        )
    return TextTokenizer(
        read_tiktoken(path, encoding.pattern, END_OF_DOCUMENT, encoding.eod_id), END_OF_DOCUMENT, str(path)
    )


def _read_sentencepiece(path: Path) -> UpstreamTokenizer:
    """The pieces are the ids, and the end of a document is the piece <|endoftext|>, else, as there, the unknown one."""
    from neox_train.data.sentencepiece_model import list_pieces, read_sentencepiece

    pieces, unknown = list_pieces(path)
    eod = END_OF_DOCUMENT if END_OF_DOCUMENT in pieces else pieces[unknown]
    return UpstreamTokenizer(
        vocab_size=len(pieces),
        eod_id=pieces.index(eod),
        load=lambda: TextTokenizer(read_sentencepiece(path, eod), eod, str(path)),
    )


def _read_gpt2_folder(folder: Path) -> UpstreamTokenizer:
    """The files of a GPT-2 tokenizer as `transformers` keeps them, and the padding token, which is added to them."""
    from tokenizers import Tokenizer

    if (folder / "tokenizer.json").is_file():
        load_tokenizer(folder / "tokenizer.json")
        made = Tokenizer.from_file(str(folder / "tokenizer.json"))
    elif (folder / "vocab.json").is_file():
        made = read_gpt2(folder / "vocab.json", folder / "merges.txt", END_OF_DOCUMENT)
    else:
        raise ConfigError(
            f"`vocab_file` {folder} of an HFGPT2Tokenizer is no folder with tokenizer.json, or vocab.json and "
            "merges.txt; save the tokenizer there (nothing is fetched)"
        )
    made.add_special_tokens([_GPT2_PADDING])
    return _describe(made, str(folder))


def _is_tokenizer_json(path: Path) -> bool:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise DataError(f"tokenizer {path} cannot be read ({error.strerror}); correct the path") from error
    except ValueError:
        return False
    return isinstance(content, dict) and "model" in content and isinstance(content["model"], dict)
