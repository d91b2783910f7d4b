"""Parquet reader: typed columns, row group by row group.

A file that was cut off has lost its directory, which stands at the end: nothing of it can be read, and one refusal
(`truncated-file`) says so. A row group whose bytes are damaged is refused as a whole (`damaged-rows`); the others
arrive. Nested cells arrive as JSON text, dictionaries decoded.
"""

from collections.abc import Iterator
from pathlib import Path

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet

from slackwater.core.errors import SourceError
from slackwater.sources.base import BATCH_ROWS, MOST_FIELDS, FileRows, empty_batch, refuse
from slackwater.sources.file_format import open_bytes

_MAGIC = b"PAR1"
_DAMAGE = (pa.ArrowException, OSError, ValueError, NotImplementedError)


class Truncated(SourceError):
    """A Parquet file without its end."""


class ParquetReader:
    """Reads one Parquet file."""

    def __init__(self, path: Path, *, batch_rows: int = BATCH_ROWS) -> None:
        self._path = path
        self._batch_rows = batch_rows

    def schema(self) -> pa.Schema:
        """The columns and their Arrow types, dictionaries decoded; a torn file is `Truncated`."""
        with self._open() as file:
            return _plain_schema(file.schema_arrow)

    def rows(self) -> Iterator[FileRows]:
        """Yield the rows in batches."""
        try:
            file = self._open()
        except Truncated as error:
            refusal = refuse(str(self._path), "truncated-file", str(error), None)
            yield FileRows(np.empty(0, np.int64), empty_batch(), (refusal,))
            return
        with file:
            number = 1
            for group in range(file.num_row_groups):
                count = file.metadata.row_group(group).num_rows
                yield from self._group(file, group, number, number + count)
                number += count

    def _group(self, file: "pa.parquet.ParquetFile", group: int, number: int, end: int) -> Iterator[FileRows]:
        batches = file.iter_batches(batch_size=self._batch_rows, row_groups=[group], use_threads=False)
        while number < end:
            try:
                batch = next(batches, None)
                if batch is None:
                    raise OSError("the row group is shorter than announced")
                batch = pa.RecordBatch.from_arrays(
                    [plain(column) for column in batch.columns], names=batch.schema.names
                )
            except _DAMAGE as error:
                detail = f"rows {number:,} to {end - 1:,} cannot be read: {error}"
                refusal = refuse(f"{self._path} row group {group}", "damaged-rows", detail, number)
                yield FileRows(np.empty(0, np.int64), empty_batch(), (refusal,))
                return
            yield FileRows(np.arange(number, number + batch.num_rows), batch)
            number += batch.num_rows

    def _open(self) -> "pa.parquet.ParquetFile":
        with open_bytes(self._path) as file:
            head = file.read(4)
            size = file.seek(0, 2)
            file.seek(max(size - 4, 0))
            tail = file.read(4)
        if not _MAGIC.startswith(head):
            raise SourceError(f"{self._path} is not a Parquet file: it does not begin with PAR1; say its format")
        if tail != _MAGIC or size < 12:
            raise Truncated(f"{self._path} was cut off: a Parquet file ends with PAR1; get the whole file again")
        try:
            file = pa.parquet.ParquetFile(self._path, pre_buffer=False, memory_map=False)
            names = file.schema_arrow.names
        except _DAMAGE as error:
            raise Truncated(f"the directory of {self._path} cannot be read: {error}") from error
        if len(set(names)) < len(names) or len(names) > MOST_FIELDS:
            file.close()
            raise SourceError(
                f"{self._path} has {len(names):,} columns, {len(set(names)):,} of them with different names; "
                f"expected at most {MOST_FIELDS:,}, each with its own name"
            )
        return file


def plain(column: pa.Array) -> pa.Array:
    """A column in a type that admission knows: no dictionaries, nested cells as JSON text, odd types as text.

    >>> plain(pa.array([[1, 2], None])).to_pylist()
    ['[1,2]', None]
    """
    kind = column.type
    if pa.types.is_dictionary(kind):
        return plain(column.dictionary_decode())
    if isinstance(kind, pa.BaseExtensionType):
        return plain(column.storage)
    if pa.types.is_nested(kind):
        cells = column.to_pylist()
        encode = msgspec.json.Encoder(enc_hook=str).encode
        return pa.array([None if cell is None else encode(cell).decode() for cell in cells], pa.string())
    if pa.types.is_time(kind) or pa.types.is_duration(kind) or pa.types.is_interval(kind):
        return pa.array([None if cell is None else str(cell) for cell in column.to_pylist()], pa.string())
    return column


def _plain_schema(schema: pa.Schema) -> pa.Schema:
    return pa.schema([(field.name, plain(pa.nulls(0, field.type)).type) for field in schema])
