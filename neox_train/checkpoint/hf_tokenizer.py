"""The tokenizer files of an export, such that ``AutoTokenizer.from_pretrained`` gives the tokenizer of the training."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

from neox_train.errors import DataError
from neox_train.files import atomic_path, write_json

TOKENIZER_FILES = ("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json")


@dataclass(frozen=True, kw_only=True, slots=True)
class TokenizerSource:
    """The tokenizer a run was trained with."""

    file: Path
    """tokenizer.json in the ``tokenizers`` format, or the file of another kind that ``content`` was made of."""
    sha256: str
    end_of_document: str
    end_of_document_id: int
    content: str = ""
    """The tokenizer.json to write where ``file`` is none."""


def write_tokenizer(folder: Path, source: TokenizerSource, *, max_tokens: int) -> None:
    """Copy or write tokenizer.json and write the two files beside it; ``max_tokens`` is the model's context.

    Raises DataError where the end-of-document token is not the tokenizer's own: a loader would add it as a new row.
    """
    from tokenizers import Tokenizer

    made = Tokenizer.from_str(source.content) if source.content else Tokenizer.from_file(str(source.file))
    found = made.token_to_id(source.end_of_document)
    if found != source.end_of_document_id:
        raise DataError(
            f"{source.file}: {source.end_of_document!r} has id {found}, the dataset's manifest says "
            f"{source.end_of_document_id}; tokenize the dataset again"
        )
    with atomic_path(folder / "tokenizer.json") as temporary:
        if source.content:
            temporary.write_text(source.content, encoding="utf-8")
        else:
            shutil.copyfile(source.file, temporary)
    special = {"bos_token": source.end_of_document, "eos_token": source.end_of_document}
    write_json(folder / "special_tokens_map.json", special)
    settings = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_max_length": max_tokens,
        "model_input_names": ["input_ids", "attention_mask"],
        "clean_up_tokenization_spaces": False,
    }
    write_json(folder / "tokenizer_config.json", settings | special)
