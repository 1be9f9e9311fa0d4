"""Reading zstandard files frame by frame: the library's own stream reader takes a file cut short for a whole one."""

from __future__ import annotations

import io
from pathlib import Path
from typing import IO, Any, cast

from neox_train.errors import DataError

_COMPRESSED_CHUNK_BYTES = 1 << 14


def open_zstandard(path: Path) -> IO[bytes]:
    """Open a .zst file of one or more frames; reading raises EOFError where it is cut short or damaged."""
    try:
        import zstandard
    except ImportError as error:
        raise DataError(f"{path} is zstandard-compressed; `pip install zstandard` to read it") from error
    compressed = open(path, "rb")  # noqa: SIM115
    return io.BufferedReader(cast(io.FileIO, _FrameStream(compressed, zstandard)), buffer_size=1 << 20)


class _FrameStream(io.RawIOBase):
    """Decompressed bytes of consecutive frames."""

    def __init__(self, compressed: IO[bytes], zstandard: Any) -> None:
        self._compressed = compressed
        self._zstandard = zstandard
        self._decompressor = zstandard.ZstdDecompressor()
        self._frame: Any = None
        self._pending = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._pending:
            chunk = self._next_chunk()
            if not chunk:
                if self._frame is not None:
                    raise EOFError("the file ends inside a frame")
                return 0
            self._frame = self._frame or self._decompressor.decompressobj()
            try:
                self._pending = memoryview(self._frame.decompress(chunk))
            except self._zstandard.ZstdError as error:
                raise EOFError(str(error)) from error
        size = min(len(buffer), len(self._pending))
        buffer[:size] = self._pending[:size]
        self._pending = self._pending[size:]
        return size

    def _next_chunk(self) -> bytes:
        """Compressed bytes to go on with: what a finished frame left over, or the file's next."""
        rest = b""
        if self._frame is not None and self._frame.eof:
            rest, self._frame = self._frame.unused_data, None
        return rest or self._compressed.read(_COMPRESSED_CHUNK_BYTES)

    def close(self) -> None:
        self._compressed.close()
        super().close()
