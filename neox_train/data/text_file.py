"""Text files: one document a file."""

from __future__ import annotations

from collections.abc import Iterator

from neox_train.data.documents import Document, Tally, count_utf8_bytes
from neox_train.data.open_source import open_source
from neox_train.data.sources import SourceFile


def read_text_file(file: SourceFile, tally: Tally, *, empty_is_error: bool) -> Iterator[Document]:
    """Yield the file's text, byte for byte (line ends too, less a byte order mark); reports bad UTF-8 by line."""
    with open_source(file, tally) as stream:
        data = stream.read()
        try:
            text = data.decode("utf-8")
        except UnicodeDecodeError as error:
            line = data.count(b"\n", 0, error.start) + 1
            tally.reject(
                f"{file.name} line {line}: byte {error.start + 1} of the file is not UTF-8 "
                f"(0x{data[error.start]:02x}); convert the file to UTF-8, or set `source.on_error: skip`"
            )
            return
        if not text and empty_is_error and not tally.skip_errors:
            tally.reject(f"{file.name} is empty; remove it from `source.files` or put text into it")
        text = text.removeprefix("\ufeff")
        yield Document(text, count_utf8_bytes(text), file.name)
