"""Storage layout: folders and names of table files, and their atomic writing.

    lock                                              who writes
    manifest/00000000000000000042.json                what counts, as of a position
    settled/00000000000000000040.json                 the long lists, named by the manifest
    recent/<kind>/table=quotes/<positions>.parquet    rows since the last settling, as they came
    latest/table=quotes/<bucket>.parquet              the last row of each key, in buckets by hash of the key
    history/table=quotes/date=2026-11-16/….parquet    every update, by the UTC date of its event time
    quarantine/table=quotes/date=2026-11-16/….parquet
    checkpoint/                                       Spark's own

Files are written under a name that readers pass over (it begins with a dot), flushed, and moved to their final
name. Final names say what is in the file, so that doing a piece of work again replaces a file by its equal.
"""

import hashlib
import uuid
from collections.abc import Iterable, Sequence
from enum import StrEnum
from pathlib import Path
from urllib.parse import quote

import pyarrow as pa
import pyarrow.parquet as pq

from slackwater.core import disk

LONGEST_FOLDER = 200
"""Bytes that a table's name may take in the name of a folder; longer ones are cut and made distinct by a hash."""
ROW_GROUP = 131_072


class Kind(StrEnum):
    """The two kinds of rows that are kept."""

    UPDATES = "updates"
    REFUSED = "refused"

    @property
    def dated(self) -> str:
        """The folder of the rows by date."""
        return "history" if self is Kind.UPDATES else "quarantine"


def table_folder(table: str) -> str:
    """A table's folder; whatever the name holds, it stays one folder.

    >>> table_folder("quotes"), table_folder("../a b")
    ('table=quotes', 'table=..%2Fa%20b')
    """
    quoted = quote(table, safe="")
    if len(quoted) > LONGEST_FOLDER:
        quoted = f"{quoted[: LONGEST_FOLDER - 20]}~{hashlib.blake2b(table.encode(), digest_size=8).hexdigest()}"
    return f"table={quoted}"


def span_name(first: int, end: int) -> str:
    """The name of a file of these positions."""
    return f"{first:020d}-{end:020d}"


def made_from(inputs: Iterable[str]) -> str:
    """A short name for a set of input files."""
    return hashlib.blake2b("\n".join(sorted(inputs)).encode(), digest_size=6).hexdigest()


def make_folder(folder: Path) -> None:
    """Make a folder and those above it, to survive a power cut."""
    missing = []
    while not folder.is_dir():
        missing.append(folder)
        folder = folder.parent
    for one in reversed(missing):
        one.mkdir(exist_ok=True)
        disk.sync_folder(one.parent)


class ParquetFile:
    """A Parquet file being written; it gets its name when closed, and leaves nothing behind if it is not."""

    def __init__(self, path: Path, schema: pa.Schema, compression: str = "zstd") -> None:
        make_folder(path.parent)
        self.rows = 0
        self._path = path
        self._draft = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
        self._schema = schema
        repeating, counting = _encodings(schema)
        self._writer = pq.ParquetWriter(
            self._draft,
            schema,
            compression=compression,
            use_dictionary=repeating or False,
            column_encoding=dict.fromkeys(counting, "DELTA_BINARY_PACKED"),
        )

    def write(self, rows: pa.Table) -> None:
        """Add rows."""
        self._writer.write_table(rows, ROW_GROUP)
        self.rows += rows.num_rows

    def close(self) -> None:
        """Flush, and give the file its name."""
        self._writer.close()
        with disk.opened(self._draft) as descriptor:
            disk.sync(descriptor)
        disk.rename(self._draft, self._path)

    def abandon(self) -> None:
        """Remove what was written."""
        self._writer.close()
        self._draft.unlink(missing_ok=True)


def _encodings(schema: pa.Schema) -> tuple[list[str], list[str]]:
    """Columns whose values repeat, and columns that count up: sequences, positions, times.

    Left to itself, Arrow looks for repetitions everywhere; with this a file is written six times as fast and is a
    twentieth of the size, for quotes in order of time. All readers in use know both encodings.
    """
    repeating = [field.name for field in schema if pa.types.is_string(field.type) or pa.types.is_int8(field.type)]
    counting = [field.name for field in schema if pa.types.is_int64(field.type) or pa.types.is_timestamp(field.type)]
    return repeating, counting


def write_parquet(path: Path, rows: pa.Table, compression: str = "zstd") -> None:
    """Write a whole file."""
    file = ParquetFile(path, rows.schema, compression)
    try:
        file.write(rows)
    except BaseException:
        file.abandon()
        raise
    file.close()


def read_rows(folder: Path, paths: Sequence[str], schema: pa.Schema) -> pa.Table:
    """The rows of these files in this layout; columns that a file does not have are null."""
    parts = [aligned_table(pq.read_table(folder / path, partitioning=None), schema) for path in paths]
    return pa.concat_tables(parts) if parts else schema.empty_table()


def aligned_table(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """Rows in a newer layout of their table: columns that were added since are null."""
    if rows.schema.equals(schema):
        return rows
    names = rows.schema.names
    arrays = [
        rows.column(field.name) if field.name in names else pa.nulls(rows.num_rows, field.type) for field in schema
    ]
    return pa.Table.from_arrays(arrays, schema=schema)
