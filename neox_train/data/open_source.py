"""Opening a corpus file as bytes, decompressed by its suffix."""

from __future__ import annotations

import bz2
import gzip
import lzma
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, cast

from neox_train.data.documents import Tally
from neox_train.data.sources import SourceFile
from neox_train.data.zstandard_file import open_zstandard
from neox_train.errors import DataError

_BUFFER_BYTES = 1 << 20


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
        return open_zstandard(path)
    return open(path, "rb", buffering=_BUFFER_BYTES)
