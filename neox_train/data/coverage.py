"""Characters that a tokenizer leaves out of a text without a word: BPE without an unknown token drops what it lacks.

Models of the other kinds raise where a text holds what they lack and they have no unknown token.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from tokenizers import Tokenizer, models, pre_tokenizers

_MAX_SHOWN = 5


class Coverage:
    """Knows which characters have no token; several threads may ask at once."""

    def __init__(self, tokenizer_json: str) -> None:
        content = json.loads(tokenizer_json)
        model: dict[str, Any] = content["model"]
        self._vocabulary = model["vocab"] if model["type"] == "BPE" else {}
        self._affixes = (model.get("continuing_subword_prefix") or "", model.get("end_of_word_suffix") or "")
        # Special tokens in text are text; of the others what they hold has a token.
        self._added = [token["content"] for token in content.get("added_tokens") or [] if not token["special"]]
        self._lost: dict[str, bool] = {}
        self.can_lose = model["type"] == "BPE" and not model.get("unk_token") and not self._covers_bytes(content)
        """Whether there may be such characters at all."""
        # Only then: a large one takes a while to load.
        self._tokenizer = Tokenizer.from_str(tokenizer_json) if self.can_lose else Tokenizer(models.BPE())

    def find_lost(self, text: str) -> dict[str, int]:
        """Characters of a text that get no token, as its normaliser leaves them, and how many times each is there."""
        if not self.can_lose:
            return {}
        if self._tokenizer.normalizer is not None:
            text = self._tokenizer.normalizer.normalize_str(text)
        for added in self._added:
            text = text.replace(added, "")
        return {character: text.count(character) for character in sorted(set(text)) if self._is_lost(character)}

    def explain_loss(self, pieces: Iterable[str], tokenizer_name: str) -> str | None:
        """Why a text is not encoded whole, to follow its place; None where it is."""
        for text in pieces if self.can_lose else ():
            if lost := self.find_lost(text):
                shown = ", ".join(f"{character!r} (U+{ord(character):04X})" for character in list(lost)[:_MAX_SHOWN])
                return (
                    f"{tokenizer_name} has neither a token for {shown}{', ...' if len(lost) > _MAX_SHOWN else ''} nor "
                    f"an unknown token, and leaves out {sum(lost.values())} of {len(text)} characters; take a "
                    "tokenizer that has one, or byte-level BPE, which reads every text"
                )
        return None

    def _is_lost(self, character: str) -> bool:
        known = self._lost.get(character)
        if known is None:
            symbols = character
            if self._tokenizer.pre_tokenizer is not None:
                # What it takes away (white space, say) is left out by rule.
                symbols = "".join(part for part, _ in self._tokenizer.pre_tokenizer.pre_tokenize_str(character))
            known = self._lost[character] = not all(map(self._has_token, symbols))
        return known

    def _has_token(self, symbol: str) -> bool:
        prefix, suffix = self._affixes
        forms = {symbol, prefix + symbol, symbol + suffix, prefix + symbol + suffix}
        return not forms.isdisjoint(self._vocabulary)

    def _covers_bytes(self, content: dict[str, Any]) -> bool:
        if content["model"].get("byte_fallback"):
            return all(f"<0x{byte:02X}>" in self._vocabulary for byte in range(256))
        steps = [_list_steps(content.get(part)) for part in ("normalizer", "pre_tokenizer")]
        is_byte_level = any(step["type"] == "ByteLevel" for found in steps for step in found)
        return is_byte_level and all(letter in self._vocabulary for letter in pre_tokenizers.ByteLevel.alphabet())


def _list_steps(part: dict[str, Any] | None) -> list[dict[str, Any]]:
    """A normaliser's or pre-tokeniser's steps, sequences taken apart."""
    if part is None:
        return []
    inner = part.get("normalizers") or part.get("pretokenizers")
    return [step for one in inner for step in _list_steps(one)] if inner else [part]
