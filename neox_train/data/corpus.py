"""A corpus as a stream of documents."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from neox_train.data.documents import AnyDocument, Tally
from neox_train.data.json_lines import read_json_lines
from neox_train.data.mending import mend_documents
from neox_train.data.sources import SourceFile
from neox_train.data.tables import read_table
from neox_train.data.text_file import read_text_file
from neox_train.errors import DataError

if TYPE_CHECKING:
    from neox_train.config.pipeline import SourceSpec

STDLIB_MAX_BYTES = 10_000_000
"""Cap of the standard-library corpus where the pipeline file names none, in bytes of text."""


def make_tally(source: SourceSpec) -> Tally:
    """A fresh tally: the standard library's files in other encodings are always skipped and counted."""
    return Tally(skip_errors=source.kind == "python_stdlib" or source.on_error == "skip")


def read_documents(source: SourceSpec, files: Sequence[SourceFile], tally: Tally) -> Iterator[AnyDocument]:
    """Yield the corpus' documents in the order of ``files``, up to ``source.max_bytes`` bytes of text.

    Empty documents are dropped and counted, duplicates of the standard library too (it holds copies of files). The
    first document that would pass the cap ends the corpus. Raises DataError naming file and line.
    """
    limit = source.max_bytes
    seen: set[bytes] | None = None
    if source.kind == "python_stdlib":
        limit = limit or STDLIB_MAX_BYTES
        seen = set()
    total = 0
    documents = _read_files(source, files, tally)
    for document in mend_documents(documents, tally) if source.ftfy else documents:
        if not document.num_bytes:
            tally.empty_documents += 1
            continue
        if seen is not None:
            content = hashlib.sha256()
            for piece in document.pieces():
                content.update(piece.encode("utf-8"))
            if content.digest() in seen:
                tally.duplicate_documents += 1
                continue
            seen.add(content.digest())
        total += document.num_bytes
        if limit is not None and total > limit:
            if total == document.num_bytes:
                raise DataError(
                    f"{document.place}: the first document has {total} bytes, more than `source.max_bytes` {limit}; "
                    "set it higher"
                )
            return
        yield document


def _read_files(source: SourceSpec, files: Sequence[SourceFile], tally: Tally) -> Iterator[AnyDocument]:
    for file in files:
        if file.format == "jsonl":
            yield from read_json_lines(file, source.text_keys, tally)
        elif file.format in ("parquet", "arrow"):
            yield from read_table(file, source.text_keys, tally)
        else:
            yield from read_text_file(file, tally, empty_is_error=source.kind == "files")
