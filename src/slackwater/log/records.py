"""What stands in a log: typed records, and their bytes.

A record has a *kind*, a *subject* (the table it is about) and occupies one position for each of its rows; a
record that is not a batch occupies one. Log implementations store and hand back bytes; encoding and decoding
happen here, so that every log holds the same ones. Kinds are stored as numbers and never reused; later
capabilities add theirs here.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from typing import TypeAlias

import msgspec
import pyarrow as pa

from slackwater.core.arrow import SEQUENCE, SOURCE
from slackwater.core.errors import LogCorrupt, LogError
from slackwater.core.schema import Column, TableSchema
from slackwater.core.types import DataType, Position


class RecordKind(IntEnum):
    """What a record is; the numbers are stored."""

    UPDATES = 1
    QUARANTINED = 2
    TABLE = 3
    DROPPED_TABLE = 4


@dataclass(frozen=True, slots=True)
class Updates:
    """Admitted updates of one table, in the layout of `core.arrow`."""

    table: str
    batch: pa.RecordBatch


@dataclass(frozen=True, slots=True)
class Quarantined:
    """Rows that were refused: what came, why and from where, in the layout of `QUARANTINE`."""

    table: str
    batch: pa.RecordBatch


@dataclass(frozen=True, slots=True)
class TableDefined:
    """A table was created, or a column added to it."""

    schema: TableSchema


@dataclass(frozen=True, slots=True)
class TableDropped:
    """A table was dropped; updates before this position remain in the log."""

    table: str


Record: TypeAlias = Updates | Quarantined | TableDefined | TableDropped

QUARANTINE = pa.schema(
    [
        pa.field("row", pa.string(), nullable=False),
        pa.field("reason", pa.string(), nullable=False),
        pa.field("detail", pa.string(), nullable=False),
        pa.field("place", pa.string(), nullable=False),
        pa.field("at", pa.timestamp("us", tz="UTC"), nullable=False),
        pa.field(SOURCE, pa.string(), nullable=False),
        pa.field(SEQUENCE, pa.int64(), nullable=True),
    ]
)
"""`row` is what came as JSON text, `reason` a short code, `detail` a sentence, `place` a file and line or the like."""


@dataclass(frozen=True, slots=True)
class Stored:
    """A record as a log keeps it: `rows` positions, beginning at `first`."""

    first: Position
    rows: int
    kind: RecordKind
    subject: str
    body: bytes | pa.Buffer

    @property
    def end(self) -> Position:
        """The position after the record."""
        return Position(self.first + self.rows)


@dataclass(frozen=True, slots=True)
class Encoded:
    """A record ready to be stored; the log adds the position."""

    rows: int
    kind: RecordKind
    subject: str
    body: pa.Buffer | bytes


def encode(record: Record) -> Encoded:
    """Turn a record into bytes."""
    match record:
        case Updates(table, batch):
            return Encoded(_rows(batch), RecordKind.UPDATES, table, _to_ipc(batch))
        case Quarantined(table, batch):
            return Encoded(_rows(batch), RecordKind.QUARANTINED, table, _to_ipc(batch))
        case TableDefined(schema):
            return Encoded(1, RecordKind.TABLE, schema.name, msgspec.json.encode(_plain(schema)))
        case TableDropped(table):
            return Encoded(1, RecordKind.DROPPED_TABLE, table, b"")


def decode(stored: Stored) -> Record:
    """Turn bytes back into the record; anything unreadable is `LogCorrupt`."""
    try:
        return _DECODERS[stored.kind](stored)
    except (pa.ArrowException, OSError, msgspec.MsgspecError, ValueError) as error:
        raise LogCorrupt(f"the record at position {stored.first} cannot be decoded: {error}") from error


def _rows(batch: pa.RecordBatch) -> int:
    if batch.num_rows == 0:
        raise LogError("an empty batch cannot be logged: it would have no position")
    return int(batch.num_rows)


def _to_ipc(batch: pa.RecordBatch) -> pa.Buffer:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return sink.getvalue()


def _from_ipc(stored: Stored) -> pa.RecordBatch:
    with pa.ipc.open_stream(pa.py_buffer(stored.body)) as reader:
        batch = reader.read_next_batch()
    if batch.num_rows != stored.rows:
        raise ValueError(f"{batch.num_rows} rows where {stored.rows} were announced")
    return batch


class _PlainColumn(msgspec.Struct):
    name: str
    type: str
    nullable: bool


class _PlainTable(msgspec.Struct):
    name: str
    columns: list[_PlainColumn]
    key: list[str]
    event_time: str | None


def _plain(schema: TableSchema) -> _PlainTable:
    columns = [_PlainColumn(column.name, column.type.value, column.nullable) for column in schema.columns]
    return _PlainTable(schema.name, columns, list(schema.key), schema.event_time)


def _schema(stored: Stored) -> TableSchema:
    plain = msgspec.json.decode(bytes(stored.body), type=_PlainTable)
    columns = tuple(Column(column.name, DataType(column.type), column.nullable) for column in plain.columns)
    return TableSchema(plain.name, columns, tuple(plain.key), plain.event_time)


_DECODERS: dict[RecordKind, Callable[[Stored], Record]] = {
    RecordKind.UPDATES: lambda stored: Updates(stored.subject, _from_ipc(stored)),
    RecordKind.QUARANTINED: lambda stored: Quarantined(stored.subject, _from_ipc(stored)),
    RecordKind.TABLE: lambda stored: TableDefined(_schema(stored)),
    RecordKind.DROPPED_TABLE: lambda stored: TableDropped(stored.subject),
}
