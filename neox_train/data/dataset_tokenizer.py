"""The tokenizer files in a dataset's folder: the tokenizer.json, and the SentencePiece model it comes from, if any.

sentencepiece itself encodes what a SentencePiece model tokenizes. The tokenizer.json is its conversion, for decoding
and for the exported model; of a unigram model it gives other ids for a few texts.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from neox_train.data.tokenizer import TextTokenizer, load_tokenizer
from neox_train.errors import DataError
from neox_train.files import sha256_file, storage_errors, write_text

if TYPE_CHECKING:
    from neox_train.config.layout import DatasetFolder
    from neox_train.config.pipeline import DatasetSpec

_MODEL_SUFFIX = ".model"


def place_tokenizer(file: str, folder: DatasetFolder, eod_token: str) -> TextTokenizer:
    """Copy a tokenizer.json, or a SentencePiece ``.model`` and its conversion, into ``folder`` and load it.

    Raises DataError where the file cannot be read or is no tokenizer, StorageError where the folder cannot be written.
    """
    try:
        content = Path(file).read_bytes()
    except OSError as error:
        raise DataError(f"tokenizer {file} cannot be read ({error.strerror}); correct the path") from error
    is_model = _is_model(file)
    target = folder.sentencepiece if is_model else folder.tokenizer
    with storage_errors(target):
        target.write_bytes(content)
    if not is_model:
        return load_tokenizer(target, eod_token, name=file)
    from neox_train.data.sentencepiece_encoder import load_sentencepiece

    tokenizer = load_sentencepiece(target, eod_token, name=file)
    write_text(folder.tokenizer, tokenizer.to_json() + "\n")
    return tokenizer


def load_placed_tokenizer(spec: DatasetSpec, folder: DatasetFolder) -> TextTokenizer:
    """The tokenizer that ``place_tokenizer`` or training left in ``folder``; raises DataError where it is not there."""
    if not _is_model(spec.tokenizer.file):
        return load_tokenizer(folder.tokenizer, spec.end_of_document)
    from neox_train.data.sentencepiece_encoder import load_sentencepiece

    return load_sentencepiece(folder.sentencepiece, spec.end_of_document)


def find_tokenizer_change(spec: DatasetSpec, folder: DatasetFolder, sha256: str) -> str | None:
    """Why the tokenizer in ``folder`` is not the one that ``spec`` names now, or None.

    ``sha256`` is what its tokenizer.json had when the dataset was made.
    """
    file = Path(spec.tokenizer.file or folder.tokenizer)
    path = folder.tokenizer
    try:
        if sha256_file(path) != sha256:
            return f"{path} changed"
        path = folder.sentencepiece
        wanted = sha256_file(path) if _is_model(spec.tokenizer.file) else sha256
        path = file
        if sha256_file(path) != wanted:
            return f"{path} changed"
    except OSError as error:
        return f"{path} cannot be read ({error.strerror})"
    return None


def list_tokenizer_files(folder: DatasetFolder) -> list[Path]:
    """The tokenizer files that are in ``folder``."""
    return [path for path in (folder.tokenizer, folder.sentencepiece) if path.is_file()]


def _is_model(file: str | None) -> bool:
    return file is not None and Path(file).suffix.lower() == _MODEL_SUFFIX
