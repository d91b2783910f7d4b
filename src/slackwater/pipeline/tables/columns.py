"""Stored columns: those of an update or of quarantine, and the row's position in the log."""

import numpy as np
import pyarrow as pa

from slackwater.core.arrow import QUARANTINE, update_schema
from slackwater.core.schema import TableSchema

POSITION = "$position"
"""Null in rows that a bulk load brought: those never stood in the log."""
TABLE = "$table"

_POSITION = pa.field(POSITION, pa.int64())


def stored_updates(table: TableSchema) -> pa.Schema:
    """The columns of history and of the latest rows."""
    return update_schema(table).append(_POSITION)


STORED_QUARANTINE = QUARANTINE.append(pa.field(TABLE, pa.string(), nullable=False)).append(_POSITION)
"""The columns of quarantine, all tables alike."""


def with_table(batch: pa.RecordBatch, table: str) -> pa.RecordBatch:
    """A batch of refused rows with the name of the table they were meant for."""
    return batch.append_column(STORED_QUARANTINE.field(TABLE), pa.repeat(table, batch.num_rows))


def with_positions(batch: pa.RecordBatch, first: int) -> pa.RecordBatch:
    """The batch with its rows' positions as the last column."""
    return batch.append_column(_POSITION, pa.array(np.arange(first, first + batch.num_rows)))


def without_positions(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The batch with a position column that knows none."""
    return batch.append_column(_POSITION, pa.nulls(batch.num_rows, pa.int64()))


def aligned(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """The batch in a newer layout of its table: columns that were added since are null."""
    if batch.schema.equals(schema):
        return batch
    names = batch.schema.names
    arrays = [
        batch.column(field.name) if field.name in names else pa.nulls(batch.num_rows, field.type) for field in schema
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)
