"""A JSON line too long for memory: its long strings stay in the file, the rest of it is parsed as any line."""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO

from neox_train.data import limits
from neox_train.data.documents import Tally
from neox_train.data.json_record import load_json
from neox_train.data.open_source import open_source
from neox_train.data.sources import SourceFile

_KEPT_STRING_BYTES = 1 << 16
_PIECE_BYTES = 1 << 20
_BODY = re.compile(rb'[^"\\]*+(?:\\.[^"\\]*+)*+', re.DOTALL)
_HIGH_SURROGATE = re.compile(rb"\\u[dD][89abAB]..\Z", re.DOTALL)


@dataclass(frozen=True)
class LongString:
    """Where a string's text lies, between its quotes."""

    start: int
    """Bytes from the file's begin, decompressed."""
    stop: int

    def read(self, file: SourceFile) -> Iterator[str]:
        """The text in pieces; raises BadLineError where an escape or a byte is wrong."""
        with open_source(file, Tally()) as stream:
            _skip(stream, self.start)
            left, pending = self.stop - self.start, b""
            while left or pending:
                chunk = stream.read(min(left, _PIECE_BYTES))
                left -= len(chunk)
                pending += chunk
                if not chunk:
                    left = 0
                size = _whole_units(pending) if left else len(pending)
                yield load_json(b'"' + pending[:size] + b'"')
                pending = pending[size:]


@dataclass(frozen=True)
class LongLine:
    """A line whose long strings are replaced by names that no text has."""

    skeleton: bytes
    strings: dict[str, LongString]
    stop: int
    """Bytes from the file's begin to the line's end."""


def read_line_in_parts(stream: IO[bytes], begun: bytes, start: int) -> LongLine:
    """The line that begins with ``begun`` at byte ``start``; the stream goes on behind ``begun``.

    The stream stands behind the line afterwards, whatever it holds; a skeleton that is itself long is cut off.
    """
    scan = _Scan(start)
    chunk = begun
    while chunk:
        scan.add(chunk)
        if chunk.endswith(b"\n"):
            break
        chunk = stream.readline(_PIECE_BYTES)
    return LongLine(bytes(scan.skeleton), scan.strings, scan.offset)


class _Scan:
    """Goes through a line's bytes, in a string or beside one."""

    def __init__(self, start: int) -> None:
        self.offset = start
        self.skeleton = bytearray()
        self.strings: dict[str, LongString] = {}
        self._prefix = uuid.uuid4().hex
        self._string_start: int | None = None
        self._body = bytearray()
        self._is_escaped = False

    def add(self, chunk: bytes) -> None:
        place = 0
        while place < len(chunk):
            place = self._pass_structure(chunk, place) if self._string_start is None else self._pass_body(chunk, place)
        self.offset += len(chunk)

    def _pass_structure(self, chunk: bytes, place: int) -> int:
        quote = chunk.find(b'"', place)
        stop = quote + 1 if quote >= 0 else len(chunk)
        self._keep(chunk[place:stop])
        if quote >= 0:
            self._string_start = self.offset + stop
            self._body.clear()
        return stop

    def _pass_body(self, chunk: bytes, place: int) -> int:
        assert self._string_start is not None
        begin = place
        if self._is_escaped:
            place, self._is_escaped = place + 1, False
        stop = _BODY.match(chunk, place).end()  # type: ignore[union-attr]
        is_closed = chunk[stop : stop + 1] == b'"'
        if not is_closed:
            self._is_escaped = stop < len(chunk)
            stop = len(chunk)
        if len(self._body) <= _KEPT_STRING_BYTES:
            self._body += chunk[begin:stop]
        if not is_closed:
            return stop
        if len(self._body) > _KEPT_STRING_BYTES:
            name = f"{self._prefix}-{len(self.strings)}"
            self.strings[name] = LongString(self._string_start, self.offset + stop)
            self._keep(name.encode())
        else:
            self._keep(self._body)
        self._keep(b'"')
        self._string_start = None
        return stop + 1

    def _keep(self, part: bytes | bytearray) -> None:
        if len(self.skeleton) <= limits.LONG_DOCUMENT_BYTES:
            self.skeleton += part


def _whole_units(raw: bytes) -> int:
    """How many bytes of a string's inside can be parsed alone: no escape, pair of surrogates or character is cut."""
    slash = raw.rfind(b"\\", max(0, len(raw) - 12))
    if slash >= 0:
        # Backslashes pair up from the left of their run; an odd last one begins an escape.
        stop = slash if _count_backslashes(raw, slash + 1) % 2 else slash + 1
        if _HIGH_SURROGATE.search(raw, max(0, stop - 6), stop) and _count_backslashes(raw, stop - 5) % 2:
            stop -= 6
        return stop
    for stop in range(len(raw) - 1, max(-1, len(raw) - 5), -1):
        if raw[stop] & 0xC0 != 0x80:
            return stop
    return len(raw)


def _count_backslashes(raw: bytes, stop: int) -> int:
    """Length of the run of backslashes that ends at ``stop``."""
    start = stop
    while start and raw[start - 1] == 0x5C:
        start -= 1
    return stop - start


def _skip(stream: IO[bytes], count: int) -> None:
    if stream.seekable():
        stream.seek(count)
        return
    while count and (chunk := stream.read(min(count, _PIECE_BYTES))):
        count -= len(chunk)
