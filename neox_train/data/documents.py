"""A document of a corpus, and the tally of what its readers leave out and why."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from neox_train.data.manifest import Dropped, Skipped
from neox_train.errors import DataError

_MAX_SAMPLES = 10


class Document(NamedTuple):
    """One document and where it was read.

    A tuple, because millions of short ones are made.
    """

    text: str
    num_bytes: int
    """UTF-8 bytes of the text."""
    place: str
    """File, and line where a file holds several documents."""

    def pieces(self) -> Iterator[str]:
        """The text in one piece."""
        yield self.text


@dataclass(frozen=True, slots=True)
class LongDocument:
    """A document whose text stays in its file: every use reads it anew, piece by piece."""

    read: Callable[[], Iterator[str]]
    num_bytes: int
    place: str

    def pieces(self) -> Iterator[str]:
        """The text in pieces of bounded size, cut anywhere between two characters."""
        return self.read()


AnyDocument = Document | LongDocument


def count_utf8_bytes(text: str) -> int:
    """Bytes of the text in UTF-8, without making them where it is ASCII; raises UnicodeEncodeError for no text."""
    return len(text) if text.isascii() else len(text.encode("utf-8"))


class UnfitDocumentError(DataError):
    """A document that the dataset's tokenizer does not encode; where errors are skipped it alone is left out."""


@dataclass
class Tally:
    """Counts of what the readers left out."""

    skip_errors: bool = False
    """Count unreadable input and go on; otherwise it ends the reading."""
    empty_documents: int = 0
    duplicate_documents: int = 0
    blank_lines: int = 0
    skipped: int = 0
    samples: list[str] = field(default_factory=list)

    def reject(self, sentence: str) -> None:
        """Count unreadable input; where errors are strict, raise DataError of the sentence and how to skip it."""
        if not self.skip_errors:
            raise DataError(f"{sentence}, or set `source.on_error: skip`")
        self.skipped += 1
        if len(self.samples) < _MAX_SAMPLES:
            self.samples.append(sentence)

    def add_skipped(self, other: Tally) -> None:
        """Count what another tally skipped too."""
        self.skipped += other.skipped
        self.samples.extend(other.samples[: _MAX_SAMPLES - len(self.samples)])

    def dropped(self) -> Dropped:
        """The counts as the manifest keeps them."""
        return Dropped(
            empty_documents=self.empty_documents,
            duplicate_documents=self.duplicate_documents,
            blank_lines=self.blank_lines,
            skipped=Skipped(count=self.skipped, samples=tuple(self.samples)),
        )

    def __str__(self) -> str:
        return str(self.dropped())
