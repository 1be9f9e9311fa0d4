"""Opening a corpus file as bytes, decompressed by its suffix."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, cast

from neox_train.data.documents import Tally
from neox_train.data.sources import SourceFile
from neox_train.errors import DataError


@contextmanager
def open_source(file: SourceFile, tally: Tally) -> Iterator[IO[bytes]]:
    """Yield the file's bytes; a damaged archive is reported as input that cannot be read, by name.

    What was read of a damaged archive before the damage stays read where ``tally`` skips errors.
    """
    try:
        with _open(file.path) as stream:
            yield stream
    except (EOFError, gzip.BadGzipFile, lzma.LZMAError, zlib.error) as error:
        tally.reject(f"{file.name}: the archive is cut short or damaged ({error}); fetch it again")
    except OSError as error:
        if error.strerror is not None:
            raise DataError(
                f"{file.name} cannot be read ({error.strerror}); give read permission or correct it"
            ) from error
        tally.reject(f"{file.name}: the archive is damaged ({error}); fetch it again")


def _open(path: Path) -> IO[bytes]:
    suffix = path.suffix.lower()
    if suffix == ".gz":
        return cast(IO[bytes], gzip.open(path, "rb"))
    if suffix == ".bz2":
        return bz2.open(path, "rb")
    if suffix == ".xz":
        return lzma.open(path, "rb")
    if suffix == ".zst":
        return _open_zstandard(path)
    return open(path, "rb")


def _open_zstandard(path: Path) -> IO[bytes]:
    try:
        import zstandard
    except ImportError as error:
        raise DataError(f"{path} is zstandard-compressed; `pip install zstandard` to read it") from error
    compressed = open(path, "rb")  # noqa: SIM115
    reader = zstandard.ZstdDecompressor().stream_reader(compressed, read_across_frames=True, closefd=True)
    return io.BufferedReader(cast(io.FileIO, _ZstandardStream(reader)))


class _ZstandardStream(io.RawIOBase):
    """zstandard's reader with its own error class turned into the archive error the other formats raise."""

    def __init__(self, reader: Any) -> None:
        self._reader = reader

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        import zstandard

        try:
            return int(self._reader.readinto(buffer))
        except zstandard.ZstdError as error:
            raise EOFError(str(error)) from error

    def close(self) -> None:
        self._reader.close()
        super().close()
