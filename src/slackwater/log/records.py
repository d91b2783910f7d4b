"""Log records: typed values and their encoding.

A record has a *kind*, a *subject* (the table it is about) and occupies one position for each of its rows; a
record that is not a batch occupies one. Log implementations store and hand back bytes; encoding and decoding
happen here, so that every log holds the same ones. Kinds are stored as numbers and never reused; later
capabilities add theirs here.

Batches of rows carry the moment of their admission, and the idempotency key of the request that brought them. Both
stand behind the end of the Arrow stream, where readers of former versions do not look:

    …        Arrow stream, up to and with its end mark
    …        the moment in microseconds, the key and the digest of the request, as MessagePack
    4 bytes  length of the MessagePack, little-endian
    4 bytes  marker `SWad`

An Arrow stream ends with four zero bytes, so a body of a former version has no such marker.
"""

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, TypeAlias

import msgspec
import numpy as np
import pyarrow as pa

from slackwater.core.arrival import RequestKey
from slackwater.core.arrow import ARROW_TYPES, EVENT_TIME, OPERATION, PROVENANCE, QUARANTINE
from slackwater.core.errors import LogCorrupt, LogError, SchemaError
from slackwater.core.hosts import HostKind
from slackwater.core.schema import Column, TableSchema
from slackwater.core.types import DataType, Instant, Position

MOST_SUBJECT = 1024
"""Bytes of the longest table name that a record can carry."""
MOST_ROWS = 2**31 - 1

_END_OF_STREAM = b"\xff\xff\xff\xff\x00\x00\x00\x00"
"""How an Arrow stream ends."""
_TRAILER = struct.Struct("<I4s")
_TRAILER_MARKER = b"SWad"


class RecordKind(IntEnum):
    """Type of a record; the numbers are stored."""

    UPDATES = 1
    QUARANTINED = 2
    TABLE = 3
    DROPPED_TABLE = 4
    REGISTERED = 5
    UNREGISTERED = 6
    TIME = 7


CATALOG_KINDS = frozenset({RecordKind.TABLE, RecordKind.DROPPED_TABLE})
"""Kinds of records that change the catalog."""


@dataclass(frozen=True, slots=True)
class Updates:
    """Admitted updates of one table, in the layout of `core.arrow`.

    `admitted` is the log clock at admission; None in records of former versions. `request` is the idempotency key of
    the request that brought the rows, all of one source.
    """

    table: str
    batch: pa.RecordBatch
    admitted: Instant | None = None
    request: RequestKey | None = None


@dataclass(frozen=True, slots=True)
class Quarantined:
    """Refused rows: raw content, reason and origin, in the layout `core.arrow.QUARANTINE`.

    `admitted` and `request` as of `Updates`. A request has its key here only if none of its rows was accepted.
    """

    table: str
    batch: pa.RecordBatch
    admitted: Instant | None = None
    request: RequestKey | None = None


@dataclass(frozen=True, slots=True)
class TableDefined:
    """A table was created, or a column added to it."""

    schema: TableSchema


@dataclass(frozen=True, slots=True)
class TableDropped:
    """A table was dropped; updates before this position remain in the log."""

    table: str


@dataclass(frozen=True, slots=True)
class Registered:
    """A standing query is registered from here on: its text in normal form, and its owner.

    A query is known by its `number`, which is the position of its first registration; None means this one. A later
    record with that number replaces the query under a higher plan `epoch`. `name` is what its owner calls it. `query`
    is the text as it was bound, in plain lists, so that no reader parses the text again; `host` is its host.
    """

    table: str
    text: str
    owner: str
    name: str | None = None
    number: int | None = None
    epoch: int = 0
    query: list[Any] | None = None
    host: str = HostKind.NODE.value
    rights: list[Any] | msgspec.UnsetType = msgspec.UNSET
    """The owner's rights that `query` is conjoined with, in plain lists; not written where there are none."""


@dataclass(frozen=True, slots=True)
class Unregistered:
    """A standing query is unregistered."""

    table: str
    number: int


@dataclass(frozen=True, slots=True)
class TimePassed:
    """Clock tick: the log's time, for queries that depend on it."""

    time: Instant


Record: TypeAlias = Updates | Quarantined | TableDefined | TableDropped | Registered | Unregistered | TimePassed

_EVERY_TABLE = "*"
"""The subject of records that are about no table."""


@dataclass(frozen=True, slots=True)
class StoredRecord:
    """A record as a log keeps it: `rows` positions, beginning at `first`."""

    first: Position
    rows: int
    kind: RecordKind
    subject: str
    body: bytes | memoryview


@dataclass(frozen=True, slots=True)
class EncodedRecord:
    """A record ready to be stored; the log adds the position.

    The body comes in pieces that follow each other, so that a log can write them without joining them first.
    `earliest` and `latest` are the event times of a batch of updates.
    """

    rows: int
    kind: RecordKind
    subject: str
    body: tuple[pa.Buffer | bytes, ...]
    earliest: Instant | None = None
    latest: Instant | None = None


def encode(record: Record) -> EncodedRecord:
    """Turn a record into bytes; refuse what could not be read back."""
    match record:
        case Updates(table, batch):
            body = (*_arrow_stream(table, batch, RecordKind.UPDATES), *_trailer(record))
            rows = _rows(batch)
            earliest, latest = _span(batch.column(EVENT_TIME))
            return EncodedRecord(rows, RecordKind.UPDATES, _subject(table), body, earliest, latest)
        case Quarantined(table, batch):
            stream = _arrow_stream(table, batch, RecordKind.QUARANTINED)
            return EncodedRecord(_rows(batch), RecordKind.QUARANTINED, _subject(table), (*stream, *_trailer(record)))
        case TableDefined(schema):
            return EncodedRecord(1, RecordKind.TABLE, _subject(schema.name), (msgspec.json.encode(_plain(schema)),))
        case TableDropped(table):
            return EncodedRecord(1, RecordKind.DROPPED_TABLE, _subject(table), ())
        case Registered(table):
            return EncodedRecord(1, RecordKind.REGISTERED, _subject(table), (msgspec.json.encode(record),))
        case Unregistered(table):
            return EncodedRecord(1, RecordKind.UNREGISTERED, _subject(table), (msgspec.json.encode(record),))
        case TimePassed():
            return EncodedRecord(1, RecordKind.TIME, _EVERY_TABLE, (msgspec.json.encode(record),))


def decode(stored: StoredRecord) -> Record:
    """Turn bytes back into the record; anything unreadable is `LogCorrupt`."""
    try:
        return _DECODERS[stored.kind](stored)
    except (pa.ArrowException, OSError, StopIteration, msgspec.MsgspecError, ValueError, SchemaError) as error:
        raise LogCorrupt(f"the record at position {stored.first} cannot be decoded: {error}") from error


def encode_tables(tables: Sequence[TableSchema]) -> bytes:
    """Table definitions as bytes: what a log keeps of the definitions whose records it has dropped."""
    return msgspec.json.encode([_plain(table) for table in tables])


def decode_tables(body: bytes) -> tuple[TableSchema, ...]:
    """Turn the bytes back into table definitions."""
    try:
        return tuple(_schema(plain) for plain in msgspec.json.decode(body, type=list[_PlainTable]))
    except (msgspec.MsgspecError, ValueError, SchemaError) as error:
        raise LogCorrupt(f"the table definitions kept by the log cannot be decoded: {error}") from error


def _span(times: pa.Array) -> tuple[Instant, Instant]:
    """The earliest and the latest of times; none is null."""
    numbers = np.frombuffer(times.buffers()[1], np.int64, len(times), times.offset * 8)
    return Instant(int(numbers.min())), Instant(int(numbers.max()))


def _rows(batch: pa.RecordBatch) -> int:
    rows = int(batch.num_rows)
    if rows == 0:
        raise LogError("an empty batch cannot be logged: it would have no position")
    if rows > MOST_ROWS:
        raise LogError(f"a batch of {rows} rows is more than the {MOST_ROWS} allowed; append it in smaller ones")
    return rows


def _subject(table: str) -> str:
    try:
        length = len(table.encode())
    except UnicodeEncodeError as error:
        raise LogError(f"the table name {table!r} cannot be written as UTF-8") from error
    if not 1 <= length <= MOST_SUBJECT:
        raise LogError(f"a table name must have 1 to {MOST_SUBJECT} bytes, this one has {length}")
    return table


@dataclass(frozen=True, slots=True)
class _Layout:
    """A batch layout that was checked once, and its message at the head of every Arrow stream."""

    schema: pa.Schema
    message: pa.Buffer


_layouts: dict[tuple[RecordKind, str], _Layout] = {}
"""The layout last seen for each table: making and checking it anew would double the cost of a small batch."""
_MOST_LAYOUTS = 4096


def _schema_message(table: str, schema: pa.Schema, kind: RecordKind) -> pa.Buffer:
    known = _layouts.get((kind, table))
    if known is not None and known.schema.equals(schema, check_metadata=True):
        return known.message
    _check_layout(table, schema, kind)
    if len(_layouts) >= _MOST_LAYOUTS:
        _layouts.clear()
    layout = _Layout(schema, schema.serialize())
    _layouts[kind, table] = layout
    return layout.message


def _check_layout(table: str, schema: pa.Schema, kind: RecordKind) -> None:
    got = [(name, type_) for name, type_ in zip(schema.names, schema.types, strict=True)]
    if kind is RecordKind.UPDATES:
        expected, found = [(field.name, field.type) for field in PROVENANCE], got[-len(PROVENANCE) :]
        strange = [name for name, type_ in got if type_ not in ARROW_TYPES.values() and name != OPERATION]
        if found != expected or strange:
            raise LogError(
                f"an update batch of {table} ends with {_described(expected)}; this one ends with "
                f"{_described(found)}" + (f" and has columns of other types: {', '.join(strange)}" if strange else "")
            )
    elif got != (expected := [(field.name, field.type) for field in QUARANTINE]):
        raise LogError(f"a quarantine batch has the columns {_described(expected)}; this one has {_described(got)}")


def _described(columns: list[tuple[str, pa.DataType]]) -> str:
    return ", ".join(f"{name} {type_}" for name, type_ in columns) or "none"


def _arrow_stream(table: str, batch: pa.RecordBatch, kind: RecordKind) -> tuple[pa.Buffer | bytes, ...]:
    return _schema_message(table, batch.schema, kind), batch.serialize(), _END_OF_STREAM


class _Trailer(msgspec.Struct, array_like=True):
    admitted: int | None = None
    key: str | None = None
    digest: bytes | None = None


def _trailer(record: Updates | Quarantined) -> tuple[bytes, ...]:
    """What follows the Arrow stream: nothing where the record says nothing about its admission."""
    if record.admitted is None and record.request is None:
        return ()
    request = record.request
    key, digest = (None, None) if request is None else (request.key, request.digest)
    plain = msgspec.msgpack.encode(_Trailer(record.admitted, key, digest))
    return (plain + _TRAILER.pack(len(plain), _TRAILER_MARKER),)


def _admission(stored: StoredRecord) -> tuple[Instant | None, RequestKey | None]:
    """Moment of admission and idempotency key of a batch, from what follows its Arrow stream."""
    body = memoryview(stored.body)
    if bytes(body[-len(_TRAILER_MARKER) :]) != _TRAILER_MARKER:
        return None, None
    length, _ = _TRAILER.unpack(body[-_TRAILER.size :])
    plain = msgspec.msgpack.decode(body[len(body) - _TRAILER.size - length : -_TRAILER.size], type=_Trailer)
    request = None if plain.key is None else RequestKey(plain.key, plain.digest or b"")
    return None if plain.admitted is None else Instant(plain.admitted), request


def _from_ipc(stored: StoredRecord) -> pa.RecordBatch:
    with pa.ipc.open_stream(pa.py_buffer(stored.body)) as reader:
        batch = reader.read_next_batch()
    batch.validate()
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


def _schema(plain: _PlainTable) -> TableSchema:
    columns = tuple(Column(column.name, DataType(column.type), column.nullable) for column in plain.columns)
    return TableSchema(plain.name, columns, tuple(plain.key), plain.event_time)


_DECODERS: dict[RecordKind, Callable[[StoredRecord], Record]] = {
    RecordKind.UPDATES: lambda stored: Updates(stored.subject, _from_ipc(stored), *_admission(stored)),
    RecordKind.QUARANTINED: lambda stored: Quarantined(stored.subject, _from_ipc(stored), *_admission(stored)),
    RecordKind.TABLE: lambda stored: TableDefined(_schema(msgspec.json.decode(stored.body, type=_PlainTable))),
    RecordKind.DROPPED_TABLE: lambda stored: TableDropped(stored.subject),
    RecordKind.REGISTERED: lambda stored: msgspec.json.decode(stored.body, type=Registered),
    RecordKind.UNREGISTERED: lambda stored: msgspec.json.decode(stored.body, type=Unregistered),
    RecordKind.TIME: lambda stored: msgspec.json.decode(stored.body, type=TimePassed),
}
