"""JSON lines: one JSON object a line, lines ended by a line feed and nothing else, one document an object."""

from __future__ import annotations

from collections.abc import Iterator

from neox_train.data import limits
from neox_train.data.documents import AnyDocument, Document, LongDocument, Tally, count_utf8_bytes
from neox_train.data.json_record import BadLineError, find_text
from neox_train.data.long_line import LongLine, read_line_in_parts
from neox_train.data.open_source import open_source
from neox_train.data.sources import SourceFile

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


def read_json_lines(file: SourceFile, text_key: str, tally: Tally) -> Iterator[AnyDocument]:
    """Yield the string under ``text_key`` of every line; lines are split on LF only, as U+2028 is text inside JSON.

    Blank lines are counted and passed over; a long line is read in parts. Raises DataError naming file and line, or
    counts the line in ``tally``.
    """
    number = offset = 0
    with open_source(file, tally) as stream:
        while line := stream.readline(limits.LONG_DOCUMENT_BYTES):
            number += 1
            start = offset
            offset += len(line)
            place = f"{file.name} line {number}"
            try:
                if len(line) == limits.LONG_DOCUMENT_BYTES and not line.endswith(b"\n"):
                    long = read_line_in_parts(stream, line, start)
                    offset = long.stop
                    del line
                    document = _find_in_parts(long, file, text_key, place)
                else:
                    if number == 1:
                        line = line.removeprefix(_BYTE_ORDER_MARK)
                    if not line.strip():
                        tally.blank_lines += 1
                        continue
                    text = find_text(line, text_key)
                    document = Document(text, count_utf8_bytes(text), place)
            except UnicodeEncodeError as error:
                escape = f"\\u{ord(error.object[error.start]):04x}"
                tally.reject(
                    f"{place}: `{text_key}` holds the lone surrogate {escape}, which is no text; mend the line"
                )
            except BadLineError as error:
                tally.reject(f"{place}: {error}")
            else:
                yield document
    if number == 0:
        tally.reject(f"{file.name} is empty; remove it from `source.files` or put documents into it")


def _find_in_parts(line: LongLine, file: SourceFile, text_key: str, place: str) -> AnyDocument:
    if len(line.skeleton) > limits.LONG_DOCUMENT_BYTES:
        raise BadLineError(
            f"the line has more than {limits.LONG_DOCUMENT_BYTES} bytes beside its long strings; "
            "leave out what is no text, or write one document a line"
        )
    text = find_text(line.skeleton.removeprefix(_BYTE_ORDER_MARK), text_key)
    # Every string is read: one that is no text makes the line invalid, whichever it is.
    sizes = {name: sum(map(count_utf8_bytes, string.read(file))) for name, string in line.strings.items()}
    if text not in line.strings:
        return Document(text, count_utf8_bytes(text), place)
    string = line.strings[text]
    return LongDocument(lambda: string.read(file), sizes[text], place)
