"""Text files: one document a file."""

from __future__ import annotations

import codecs
from collections.abc import Iterator
from typing import IO

from neox_train.data import limits
from neox_train.data.documents import AnyDocument, Document, LongDocument, Tally, count_utf8_bytes
from neox_train.data.open_source import open_source
from neox_train.data.sources import SourceFile, explain_archive

_PIECE_BYTES = 1 << 20
_TAR_MARK, _TAR_MARK_AT = b"ustar", 257
"""Of ASCII files a tar archive is valid UTF-8: its name may not say what it is."""


def read_text_file(file: SourceFile, tally: Tally, *, empty_is_error: bool) -> Iterator[AnyDocument]:
    """Yield the file's text, byte for byte (line ends too, less a byte order mark); reports bad UTF-8 by line.

    A long file is checked piece by piece, and its document reads it again.
    """
    with open_source(file, tally) as stream:
        data = stream.read(limits.LONG_DOCUMENT_BYTES + 1)
        if data.startswith(_TAR_MARK, _TAR_MARK_AT):
            tally.reject(explain_archive(file.name))
            return
        pieces = _decode(stream, data)
        try:
            if len(data) <= limits.LONG_DOCUMENT_BYTES:
                text = "".join(pieces)
                document: AnyDocument = Document(text, count_utf8_bytes(text), file.name)
            else:
                del data
                num_bytes = sum(map(count_utf8_bytes, pieces))
                document = LongDocument(lambda: _read_pieces(file), num_bytes, file.name)
        except _NotUtf8Error as error:
            tally.reject(
                f"{file.name} line {error.line}: byte {error.place} of the file is not UTF-8 "
                f"(0x{error.byte:02x}); convert the file to UTF-8"
            )
            return
        if not document.num_bytes and empty_is_error and not tally.skip_errors:
            tally.reject(f"{file.name} is empty; remove it from `source.files` or put text into it")
        yield document


class _NotUtf8Error(Exception):
    def __init__(self, line: int, place: int, byte: int) -> None:
        self.line = line
        self.place = place
        self.byte = byte


def _read_pieces(file: SourceFile) -> Iterator[str]:
    with open_source(file, Tally()) as stream:
        yield from _decode(stream, b"")


def _decode(stream: IO[bytes], data: bytes) -> Iterator[str]:
    """The text of ``data`` and of what follows it in the stream."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    offset, lines, is_first = 0, 0, True
    while True:
        chunk = data or stream.read(_PIECE_BYTES)
        data = b""
        pending = len(decoder.getstate()[0])
        try:
            text = decoder.decode(chunk, final=not chunk)
        except UnicodeDecodeError as error:
            bad = error.object
            lines += bad.count(b"\n", 0, error.start)
            raise _NotUtf8Error(lines + 1, offset - pending + error.start + 1, bad[error.start]) from error
        offset += len(chunk)
        lines += chunk.count(b"\n")
        yield text.removeprefix("\ufeff") if is_first else text
        is_first = False
        if not chunk:
            return
