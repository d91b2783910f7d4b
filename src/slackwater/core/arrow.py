"""Arrow layout of update batches: one schema for every room that a batch crosses.

An *update batch* holds the columns of its table in schema order, followed by the four columns of `PROVENANCE`.
It belongs to one table, whose name travels beside it. In a DELETE only the key columns count.

Needs the `node` extra; nothing else in `core` does.
"""

from collections.abc import Sequence
from functools import lru_cache

import pyarrow as pa

from slackwater.core.schema import Column, TableSchema
from slackwater.core.types import DataType, Instant
from slackwater.core.update import Operation, Origin, Update

OPERATION = "$op"
EVENT_TIME = "$time"
SOURCE = "$source"
SEQUENCE = "$seq"

INSTANT = pa.timestamp("us", tz="UTC")
STREAM_MEDIA_TYPE = "application/vnd.apache.arrow.stream"
"""What a body of Arrow batches is called over HTTP."""

PROVENANCE: tuple[pa.Field, ...] = (
    pa.field(OPERATION, pa.int8(), nullable=False),
    pa.field(EVENT_TIME, INSTANT, nullable=False),
    pa.field(SOURCE, pa.string(), nullable=False),
    pa.field(SEQUENCE, pa.int64(), nullable=False),
)

QUARANTINE = pa.schema(
    [
        pa.field("row", pa.string(), nullable=False),
        pa.field("reason", pa.string(), nullable=False),
        pa.field("detail", pa.string(), nullable=False),
        pa.field("place", pa.string(), nullable=False),
        pa.field("at", INSTANT, nullable=False),
        pa.field(SOURCE, pa.string(), nullable=False),
        pa.field(SEQUENCE, pa.int64(), nullable=True),
    ]
)
"""`row`: the raw row as JSON text. `reason`: a code. `detail`: a sentence. `place`: a file and row, or the like."""

ARROW_TYPES: dict[DataType, pa.DataType] = {
    DataType.BOOLEAN: pa.bool_(),
    DataType.BIGINT: pa.int64(),
    DataType.DOUBLE: pa.float64(),
    DataType.TEXT: pa.string(),
    DataType.TIMESTAMP: INSTANT,
}


def field(column: Column, *, nullable: bool | None = None) -> pa.Field:
    """The Arrow field of a column."""
    return pa.field(column.name, ARROW_TYPES[column.type], column.nullable if nullable is None else nullable)


@lru_cache(maxsize=1_024)
def update_schema(table: TableSchema) -> pa.Schema:
    """The layout of an update batch of this table; values are nullable because a DELETE has none."""
    fields = [field(column, nullable=column.name not in table.key) for column in table.columns]
    return pa.schema([*fields, *PROVENANCE])


def to_batch(table: TableSchema, updates: Sequence[Update]) -> pa.RecordBatch:
    """Put single updates of one table into columns."""
    schema = update_schema(table)
    columns = [
        pa.array([update.row[position] for update in updates], kind)
        for position, kind in enumerate(schema.types[: len(table.columns)])
    ]
    columns += [
        pa.array([int(update.operation) for update in updates], pa.int8()),
        pa.array([update.event_time for update in updates], INSTANT),
        pa.array([update.origin.source for update in updates], pa.string()),
        pa.array([update.origin.sequence for update in updates], pa.int64()),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def from_batch(table: TableSchema, batch: pa.RecordBatch) -> list[Update]:
    """Take columns apart into single updates."""
    columns = [
        batch.column(position).cast(_stored(batch.schema.field(position).type)).to_pylist()
        for position in range(batch.num_columns)
    ]
    operations, times, sources, sequences = columns[-4:]
    rows = zip(*columns[:-4], strict=True)
    return [
        Update(table.name, tuple(row), Instant(time), Origin(source, sequence), Operation(operation))
        for row, operation, time, source, sequence in zip(rows, operations, times, sources, sequences, strict=True)
    ]


def _stored(kind: pa.DataType) -> pa.DataType:
    """Instants are integers in Python and timestamps in Arrow."""
    return pa.int64() if kind == INSTANT else kind
