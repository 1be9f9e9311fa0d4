"""Parquet and Arrow files: a document of a row for each column that holds text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import Any

from neox_train.data import limits
from neox_train.data.documents import Document, Tally, count_utf8_bytes
from neox_train.data.sources import SourceFile
from neox_train.errors import DataError

_ROWS_AT_ONCE = 1024
_BYTES_AT_ONCE = 1 << 24
_MAX_COLUMNS_SHOWN = 8


def read_table(file: SourceFile, text_keys: Sequence[str], tally: Tally) -> Iterator[Document]:
    """Yield the text of every row, a bounded number of rows in memory; rows count from 1.

    Raises DataError naming file and row, or counts the row in ``tally``.
    """
    import pyarrow

    kind, title = (_Parquet, "Parquet") if file.format == "parquet" else (_Arrow, "Arrow")
    try:
        with closing(kind(file)) as table:
            for key in text_keys:
                _require_text(file, table.schema, key)
            yield from _read_rows(file, table, text_keys, tally)
    except (pyarrow.ArrowException, OSError) as error:
        if isinstance(error, OSError) and error.strerror is not None:
            raise DataError(
                f"{file.name} cannot be read ({error.strerror}); give read permission or correct it"
            ) from error
        reason = (str(error).splitlines() or ["it is empty"])[0].rstrip(".")
        tally.reject(f"{file.name} is no whole {title} file ({reason}); fetch or write it again")


def _read_rows(
    file: SourceFile, table: _Parquet | _Arrow, text_keys: Sequence[str], tally: Tally
) -> Iterator[Document]:
    number = 0
    for columns in table.batches(text_keys):
        long_rows: dict[int, str] = {}
        for key, column in zip(text_keys, columns, strict=True):
            long_rows |= _find_long_rows(column, number, key)
        for row in zip(*columns, strict=True):
            number += 1
            place = f"{file.name} row {number}"
            if number in long_rows:
                tally.reject(f"{place}: {long_rows[number]}")
                continue
            texts = []
            for key, value in zip(text_keys, row, strict=True):
                try:
                    text = value.as_py()
                except UnicodeDecodeError as error:
                    tally.reject(f"{place}: byte {error.start + 1} of `{key}` is not UTF-8; write the file again")
                    break
                if text is None:
                    tally.reject(f"{place}: `{key}` holds null; a string is wanted")
                    break
                texts.append(text)
            else:
                yield from (Document(text, count_utf8_bytes(text), place) for text in texts)


def _find_long_rows(column: Any, rows_before: int, text_key: str) -> dict[int, str]:
    """What is wrong with the rows whose text is too long, by their number."""
    import numpy as np
    from pyarrow import compute, large_string

    values = column.cast(large_string())
    if values.nbytes <= limits.MAX_ROW_BYTES:
        return {}
    sizes = compute.binary_length(values).fill_null(0).to_numpy(zero_copy_only=False)
    return {
        rows_before + row + 1: f"`{text_key}` holds {sizes[row]} bytes, a row's text has up to {limits.MAX_ROW_BYTES}; "
        "write documents of that size as text or JSON lines, which are read in pieces"
        for row in np.flatnonzero(sizes > limits.MAX_ROW_BYTES).tolist()
    }


class _Parquet:
    def __init__(self, file: SourceFile) -> None:
        from pyarrow import parquet

        self._file = parquet.ParquetFile(file.path, memory_map=True)
        self.schema = self._file.schema_arrow

    def batches(self, names: Sequence[str]) -> Iterator[list[Any]]:
        mean_bytes = sum(map(self._mean_bytes, names))
        rows = min(_ROWS_AT_ONCE, max(1, _BYTES_AT_ONCE // max(1, mean_bytes)))
        for batch in self._file.iter_batches(batch_size=rows, columns=list(names)):
            yield [batch.column(name) for name in names]

    def _mean_bytes(self, name: str) -> int:
        """Of a row's text, by the file's own account."""
        metadata = self._file.metadata
        groups = [metadata.row_group(index) for index in range(metadata.num_row_groups)]
        chunks = [group.column(place) for group in groups for place in range(group.num_columns)]
        size = sum(chunk.total_uncompressed_size for chunk in chunks if chunk.path_in_schema == name)
        return int(size // max(1, metadata.num_rows))

    def close(self) -> None:
        self._file.close()


class _Arrow:
    """An Arrow file of either kind: a stream, as the ``datasets`` library writes it, or a file with an index."""

    def __init__(self, file: SourceFile) -> None:
        import pyarrow

        self._map = pyarrow.memory_map(str(file.path))
        is_indexed = self._map.read(6) == b"ARROW1"
        self._map.seek(0)
        self._reader = (pyarrow.ipc.open_file if is_indexed else pyarrow.ipc.open_stream)(self._map)
        self._is_indexed = is_indexed
        self.schema = self._reader.schema

    def batches(self, names: Sequence[str]) -> Iterator[list[Any]]:
        places = [self.schema.get_field_index(name) for name in names]
        if self._is_indexed:
            batches = (self._reader.get_batch(index) for index in range(self._reader.num_record_batches))
        else:
            batches = iter(self._reader)
        for batch in batches:
            yield [batch.column(place) for place in places]

    def close(self) -> None:
        self._map.close()


def _require_text(file: SourceFile, schema: Any, text_key: str) -> None:
    """A missing column is an error also where bad rows are skipped: every row would be one."""
    from pyarrow import types

    if schema.get_field_index(text_key) < 0:
        shown = ", ".join(f"`{name}`" for name in schema.names[:_MAX_COLUMNS_SHOWN])
        raise DataError(
            f"{file.name} has no column `{text_key}`, it has {shown}; set `source.text_key` to the column of the text"
        )
    kind = schema.field(text_key).type
    value = kind.value_type if types.is_dictionary(kind) else kind
    if not (types.is_string(value) or types.is_large_string(value) or types.is_string_view(value)):
        raise DataError(
            f"{file.name}: the column `{text_key}` holds {kind}, strings are wanted; name another `source.text_key`"
        )
