"""Column conversion between Arrow and NumPy: a column is its values and a validity mask.

Arrow's own way to NumPy turns integers with nulls into floats, which cannot hold every BIGINT. Here a column is two
arrays: `values`, with a filler where a cell is null, and `valid`. Instants are integers, texts are Python's.
"""

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from slackwater.core.arrow import INSTANT, field
from slackwater.core.schema import TableSchema
from slackwater.core.types import DataType, Row
from slackwater.processing.base import Flags, Integers

Cells: TypeAlias = npt.NDArray[Any]

_STORED: dict[DataType, Any] = {
    DataType.BOOLEAN: np.bool_,
    DataType.BIGINT: np.int64,
    DataType.DOUBLE: np.float64,
    DataType.TEXT: object,
    DataType.TIMESTAMP: np.int64,
}


def rows_schema(table: TableSchema) -> pa.Schema:
    """The layout of rows: the table's columns; values may be null because a row that is not there has none."""
    return pa.schema([field(column, nullable=column.name not in table.key) for column in table.columns])


def unpacked(array: pa.Array) -> tuple[Cells, Flags]:
    """The values of an Arrow column, and which of them there are."""
    valid: Flags = (
        array.is_valid().to_numpy(zero_copy_only=False) if array.null_count else np.ones(len(array), np.bool_)
    )
    if array.type == INSTANT:
        array = array.view(pa.int64())
    if pa.types.is_string(array.type):
        return array.to_numpy(zero_copy_only=False), valid
    if array.null_count:
        array = pc.fill_null(array, False if pa.types.is_boolean(array.type) else 0)
    return array.to_numpy(zero_copy_only=False), valid


def packed(values: Cells, valid: Flags, kind: DataType) -> pa.Array:
    """The Arrow column of these values."""
    if kind is DataType.TEXT:
        return pa.array(values, pa.string())
    mask = None if valid.all() else ~valid
    array = pa.array(values, mask=mask)
    return array.view(INSTANT) if kind is DataType.TIMESTAMP else array


def python_values(array: pa.Array) -> list[Any]:
    """The cells of an Arrow column as scalars of `core.types`."""
    values: list[Any] = (array.view(pa.int64()) if array.type == INSTANT else array).to_pylist()
    return values


def python_rows(rows: pa.RecordBatch) -> list[Row]:
    """The rows of a batch as tuples."""
    if not rows.num_columns:
        return [()] * int(rows.num_rows)
    return list(zip(*(python_values(column) for column in rows.columns), strict=True))


@dataclass(slots=True)
class StoredColumn:
    """One column of a table by slot, with room to grow."""

    kind: DataType
    values: Cells
    valid: Flags

    @classmethod
    def empty(cls, kind: DataType, room: int) -> "StoredColumn":
        """Room for this many cells, all null."""
        return cls(kind, _filler(kind, room), np.zeros(room, np.bool_))

    def grow(self, room: int) -> None:
        """Make room for this many cells."""
        more = room - len(self.valid)
        self.values = np.concatenate([self.values, _filler(self.kind, more)])
        self.valid = np.concatenate([self.valid, np.zeros(more, np.bool_)])

    def read(self, slots: Integers) -> pa.Array:
        """The cells of these slots."""
        return packed(self.values[slots], self.valid[slots], self.kind)

    def write(self, slots: Integers, values: Cells, valid: Flags) -> None:
        """Set the cells of these slots."""
        self.values[slots] = values
        self.valid[slots] = valid

    def clear(self, slots: Integers) -> None:
        """Make the cells of these slots null."""
        self.write(slots, _filler(self.kind, len(slots)), np.zeros(len(slots), np.bool_))


def _filler(kind: DataType, count: int) -> Cells:
    """What stands in place of null: one thing only, so that equal states are equal bytes."""
    return np.full(count, None, object) if kind is DataType.TEXT else np.zeros(count, _STORED[kind])
