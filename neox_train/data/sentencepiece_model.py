"""SentencePiece models as a Hugging Face tokenizer whose ids are compared with those of the sentencepiece library."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from neox_train.data.tokenizer_formats import first_line
from neox_train.errors import DataError, install_extra

if TYPE_CHECKING:
    from tokenizers import Tokenizer

_UNIGRAM, _BPE = 1, 2
_CONTROL, _USER_DEFINED = 3, 4
_HARD_TEXTS = (
    " ",
    "  leading\tand trailing  \r\n\n \n",
    "\x00\x01\x1f\x7f\x85\xa0\u2028\u200b\ufeff",
    "🙂🏳️‍🌈👩🏽‍🚀 é e\u0301 ﬁ Å ｆｕｌｌ 日本語 עברית \U0010ffff \ud7ff\ue000",
    "▁ ▁▁x ▁",
    "x" * 300 + " " * 70 + "日" * 90,
    "aaaa aaaaa abababab banana 1234567890 3.14e-10 0x7fff don't snake_case camelCase $x+=y<<2;",
)


def read_sentencepiece(path: Path, eod_token: str, *, name: str | None = None) -> Tokenizer:
    """The tokenizer of a ``.model`` of kind BPE or unigram, with the ids that sentencepiece gives.

    Hard texts are encoded by both, and a tokenizer that differs for one is refused. Raises DataError for that, for
    any other file, and where the library is not installed. The end-of-document token keeps its id,
    or gets the next one where the model does not know it. ``name`` is how sentences call a copy.
    """
    content = _read(path)
    name = name or str(path)
    model, own = _load(name, content)
    kind = model.trainer_spec.model_type
    if kind not in (_UNIGRAM, _BPE):
        raise DataError(f"{name} is a SentencePiece model of words or characters; BPE or unigram is wanted")
    wanted = [*_HARD_TEXTS, *_list_user_defined(model)]
    if kind == _BPE:
        wanted += [f"a{piece.piece}b {piece.piece}" for piece in model.pieces if piece.type == _CONTROL]
    different = ""
    for convert in (_convert_by_gigatoken, _convert_by_transformers):
        made = convert(model, content, eod_token)
        if made is None:
            continue
        made.add_special_tokens([eod_token])
        different = _find_difference(made, own, wanted)
        if not different:
            return made
    raise DataError(
        f"{name}: `tokenizers` gives other ids than sentencepiece for {different[:40]!r}; train a model without "
        "user-defined pieces and with the identity normalisation, or take a byte-level BPE tokenizer"
    )


def list_pieces(path: Path) -> tuple[list[str], int]:
    """A model's pieces by their ids, and the id of the unknown one; raises DataError as ``read_sentencepiece``."""
    model, own = _load(str(path), _read(path))
    return [piece.piece for piece in model.pieces], int(own.unk_id())


def load_processor(path: Path) -> Any:
    """The library's own SentencePieceProcessor of a model; raises DataError as ``read_sentencepiece``."""
    return _load(str(path), _read(path))[1]


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise DataError(f"{path} cannot be read ({error.strerror}); correct the path") from error


def _load(name: str, content: bytes) -> tuple[Any, Any]:
    """The model's message, and the library's processor of it."""
    try:
        from sentencepiece import SentencePieceProcessor, sentencepiece_model_pb2
    except ImportError as error:
        raise DataError(
            f"{name} is read with sentencepiece and protobuf, which are not installed ({error}); "
            f"run {install_extra('sentencepiece')}"
        ) from error
    try:
        model = sentencepiece_model_pb2.ModelProto.FromString(content)
        if not model.pieces:
            raise ValueError("it has no pieces")
        return model, SentencePieceProcessor(model_proto=content)
    except Exception as error:
        # protobuf and the library raise errors of their own kinds.
        raise DataError(f"{name} is no SentencePiece model ({first_line(error)}); fetch it again") from error


def _convert_by_gigatoken(model: Any, content: bytes, eod_token: str) -> Tokenizer | None:
    """The shape that gigatoken encodes fast, or None: it knows BPE with byte fallback only."""
    import gigatoken
    from tokenizers import Tokenizer, decoders

    try:
        described = json.loads(gigatoken.Tokenizer.from_sentencepiece(content)._hf_json)
        tokenizer = Tokenizer.from_str(json.dumps(described))
    except Exception:
        # The library raises ValueError, IndexError and others for what it does not read.
        return None
    steps = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]
    if "Prepend" in json.dumps(described["normalizer"]):
        steps.append(decoders.Strip(" ", 1, 0))
    tokenizer.decoder = decoders.Sequence(steps)
    return tokenizer


def _convert_by_transformers(model: Any, content: bytes, eod_token: str) -> Tokenizer | None:
    """Any BPE or unigram model, by the converter of transformers."""
    from tokenizers import Regex, normalizers
    from transformers.convert_slow_tokenizer import SpmConverter

    build: Callable[..., Tokenizer] | None = getattr(SpmConverter, "build_tokenizer_from_spm_proto", None)
    if build is None:
        return None
    vocabulary: dict[str, int] | list[tuple[str, float]]
    if model.trainer_spec.model_type == _BPE:
        vocabulary = {piece.piece: place for place, piece in enumerate(model.pieces)}
    else:
        vocabulary = [(_hide_control(piece, eod_token), piece.score) for piece in model.pieces]
    made = build(model, vocabulary)
    if model.normalizer_spec.remove_extra_whitespaces:
        # sentencepiece strips the end after it has escaped spaces: the sign for a space goes too where text has it.
        made.normalizer = normalizers.Sequence([made.normalizer, normalizers.Replace(Regex(r"▁+\z"), "")])
    return made


def _hide_control(piece: Any, eod_token: str) -> str:
    """A name that no text has: spaces are escaped before a unigram model sees them.

    sentencepiece never reads a control piece in text; the unigram model of `tokenizers` would.
    """
    return f"{piece.piece} " if piece.type == _CONTROL and piece.piece != eod_token else str(piece.piece)


def _list_user_defined(model: Any) -> list[str]:
    names = [piece.piece for piece in model.pieces if piece.type == _USER_DEFINED][:50]
    return [text for name in names for text in (f"a{name}b {name}", name * 2, f"{name[:1]}{name}{name[-1:]}")]


def _find_difference(made: Tokenizer, own: Any, texts: Sequence[str]) -> str:
    """The first text that both read differently, or nothing."""
    made.encode_special_tokens = True
    for text in texts:
        if made.encode(text, add_special_tokens=False).ids != own.encode(text):
            return text
    return ""
