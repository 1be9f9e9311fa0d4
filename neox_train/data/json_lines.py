"""JSON lines: one JSON object a line, lines ended by a line feed and nothing else, a document for each text key."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial

from neox_train.data import limits
from neox_train.data.documents import AnyDocument, Document, LongDocument, Tally, count_utf8_bytes
from neox_train.data.json_record import BadLineError, find_text, find_texts
from neox_train.data.long_line import LongLine, read_line_in_parts
from neox_train.data.open_source import open_source
from neox_train.data.sources import SourceFile

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


def read_json_lines(file: SourceFile, text_keys: Sequence[str], tally: Tally) -> Iterator[AnyDocument]:
    """Yield the strings under ``text_keys`` of every line; lines are split on LF only, as U+2028 is text inside JSON.

    Blank lines are counted and passed over; a long line is read in parts. Raises DataError naming file and line, or
    counts the line in ``tally``, of which nothing is yielded then.
    """
    number = offset = 0
    rejected = tally.skipped
    only_key = text_keys[0] if len(text_keys) == 1 else None
    documents: list[AnyDocument]
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
                    documents = _find_in_parts(long, file, text_keys, place)
                else:
                    if number == 1:
                        line = line.removeprefix(_BYTE_ORDER_MARK)
                    if only_key is not None and (text := find_text(line, only_key)) is not None:
                        # What nearly every line is: the general way below costs a short line several times its parsing.
                        yield Document(text, count_utf8_bytes(text), place)
                        continue
                    if not line.strip():
                        tally.blank_lines += 1
                        continue
                    texts = find_texts(line, text_keys)
                    documents = [
                        Document(text, _count_bytes([text], f"`{key}`"), place)
                        for key, text in zip(text_keys, texts, strict=True)
                    ]
            except BadLineError as error:
                tally.reject(f"{place}: {error}")
            else:
                yield from documents
    if number == 0 and tally.skipped == rejected:
        tally.reject(f"{file.name} is empty; remove it from `source.files` or put documents into it")


def _find_in_parts(line: LongLine, file: SourceFile, text_keys: Sequence[str], place: str) -> list[AnyDocument]:
    if len(line.skeleton) > limits.LONG_DOCUMENT_BYTES:
        raise BadLineError(
            f"the line has more than {limits.LONG_DOCUMENT_BYTES} bytes beside its long strings; "
            "leave out what is no text, or write one document a line"
        )
    texts = find_texts(line.skeleton.removeprefix(_BYTE_ORDER_MARK), text_keys)
    keys = dict(zip(texts, text_keys, strict=True))
    # Every string is read: one that is no text makes the line invalid, whichever it is.
    sizes = {
        name: _count_bytes(string.read(file), f"`{keys[name]}`" if name in keys else "a string")
        for name, string in line.strings.items()
    }
    return [
        LongDocument(partial(line.strings[text].read, file), sizes[text], place)
        if text in line.strings
        else Document(text, _count_bytes([text], f"`{keys[text]}`"), place)
        for text in texts
    ]


def _count_bytes(pieces: Iterable[str], what: str) -> int:
    """UTF-8 bytes of a text; raises BadLineError for half of a pair of surrogates, which is no text."""
    try:
        return sum(map(count_utf8_bytes, pieces))
    except UnicodeEncodeError as error:
        escape = f"\\u{ord(error.object[error.start]):04x}"
        raise BadLineError(f"{what} holds the lone surrogate {escape}, which is no text; mend the line") from error
