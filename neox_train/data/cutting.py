"""Cutting a long text where the tokenizer surely starts anew, so that its pieces have the ids of the whole.

The rule: before a space or line feed that follows a letter. It is proved for byte-level BPE by its parts. The known
patterns match from left to right and look back at nothing. None has a match with a letter right before white space, so
a match ends there and the next begins there; the only look ahead, behind white space, ends at the letter at the latest.
No added token may hold such a place either, nor take in spaces beside it. Unicode's normal forms change nothing across
a space. Merges stay inside one match.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from neox_train.data import limits
from neox_train.data.documents import AnyDocument, UnfitDocumentError
from neox_train.data.tokenizer_formats import PATTERNS

_WORDS = r"[^\r\n\p{L}\p{N}]?\p{L}+"
_OTHERS = r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
_PATTERNS = {
    *PATTERNS.values(),
    rf"(?i:'s|'t|'re|'ve|'m|'ll|'d)|{_WORDS}|\p{{N}}{{1,3}}|{_OTHERS}",
    rf"(?i:'s|'t|'re|'ve|'m|'ll|'d)|{_WORDS}|\p{{N}}|{_OTHERS}",
}
"""Those of GPT-2, cl100k_base, Llama 3 and Qwen 2."""
# Letters in every version of Unicode: the engines of the tokenizers may have another than Python.
LETTERS = "A-Za-zΑ-Ρα-ωА-Яа-яא-תء-غぁ-んァ-ヺ一-龥가-힣"
_PLACE = re.compile(f"[{LETTERS}](?=[ \n])")
_NORMAL_FORMS = {"NFC", "NFD", "NFKC", "NFKD"}
_FIRST_LOOK_CHARACTERS = 1 << 10


def can_cut(tokenizer_json: str) -> bool:
    """Whether the rule is proved for this tokenizer."""
    content = json.loads(tokenizer_json)
    model = content["model"]
    return (
        model["type"] == "BPE"
        and not any(model.get(key) for key in ("dropout", "continuing_subword_prefix", "end_of_word_suffix"))
        and _is_local_normalizer(content.get("normalizer"))
        and _is_known_pre_tokenizer(content.get("pre_tokenizer"))
        and not any(_may_hold_a_place(token) for token in content.get("added_tokens") or [])
    )


def cut_document(document: AnyDocument) -> Iterator[str]:
    """The document's text in pieces of about limits.PIECE_CHARACTERS, cut by the rule.

    Raises UnfitDocumentError where more than limits.MAX_UNCUT_BYTES characters lie between two places.
    """
    waiting: list[str] = []
    size = 0
    for piece in document.pieces():
        waiting.append(piece)
        size += len(piece)
        if size < limits.PIECE_CHARACTERS:
            continue
        text = "".join(waiting)
        start = 0
        while len(text) - start >= limits.PIECE_CHARACTERS:
            place = _find_last_place(text, start, start + limits.PIECE_CHARACTERS)
            if place is None:
                break
            yield text[start:place]
            start = place
        waiting, size = [text[start:]], len(text) - start
        if size > limits.MAX_UNCUT_BYTES:
            raise UnfitDocumentError(
                f"{document.place}: more than {limits.MAX_UNCUT_BYTES} characters without a space or line end behind a "
                "letter, where a long text could be cut for the tokenizer; split the document"
            )
    if size:
        yield "".join(waiting)


def _find_last_place(text: str, start: int, stop: int) -> int | None:
    """The last place to cut in ``text[start:stop]``, looked for backwards in growing steps, or the first behind it."""
    look = _FIRST_LOOK_CHARACTERS
    end = stop
    while end > start + 1:
        begin = max(start, end - look)
        places = [match.end() for match in _PLACE.finditer(text, begin, min(end + 1, len(text)))]
        if places and places[-1] > start:
            return places[-1]
        end, look = begin + 1, look * 4
    behind = _PLACE.search(text, max(start, stop - 1))
    return behind.end() if behind else None


def _is_local_normalizer(normalizer: dict[str, Any] | None) -> bool:
    if normalizer is None:
        return True
    if normalizer["type"] == "Sequence":
        return all(map(_is_local_normalizer, normalizer["normalizers"]))
    return normalizer["type"] in _NORMAL_FORMS


def _is_known_pre_tokenizer(pre_tokenizer: dict[str, Any] | None) -> bool:
    if pre_tokenizer is None:
        return False
    *splits, last = pre_tokenizer["pretokenizers"] if pre_tokenizer["type"] == "Sequence" else [pre_tokenizer]
    if last["type"] != "ByteLevel" or last["add_prefix_space"]:
        return False
    divides = last.get("use_regex", True) or any(step["type"] == "Split" for step in splits)
    return divides and all(map(_is_known_split, splits))


def _is_known_split(step: dict[str, Any]) -> bool:
    if step["type"] == "Digits":
        return True
    return (
        step["type"] == "Split"
        and step["pattern"].get("Regex") in _PATTERNS
        and step["behavior"] == "Isolated"
        and not step["invert"]
    )


def _may_hold_a_place(token: dict[str, Any]) -> bool:
    return (
        any(token[flag] for flag in ("lstrip", "rstrip", "single_word")) or _PLACE.search(token["content"]) is not None
    )
