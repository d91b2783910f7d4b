"""Column conversion between Arrow and NumPy: a column is its values and a validity mask.

Arrow's own way to NumPy turns integers with nulls into floats, which cannot hold every BIGINT. Here a column is two
arrays: `values`, with a filler where a cell is null, and `valid`. Instants are integers, texts are Python's.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from slackwater.core.arrow import INSTANT, field
from slackwater.core.schema import TableSchema
from slackwater.core.types import DataType, Row
from slackwater.kernels import row_fold as kernel
from slackwater.processing.base import Flags, Integers

Cells: TypeAlias = npt.NDArray[Any]

_STORED: dict[DataType, Any] = {
    DataType.BOOLEAN: np.bool_,
    DataType.BIGINT: np.int64,
    DataType.DOUBLE: np.float64,
    DataType.TEXT: object,
    DataType.TIMESTAMP: np.int64,
}

PLAIN = frozenset({DataType.BIGINT, DataType.DOUBLE, DataType.TIMESTAMP})
"""Kinds that Arrow stores as NumPy does."""
_ALL: Flags = np.zeros(0, np.bool_)
_NOTHING = np.array(None, object)


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


def values_of(array: pa.Array, kind: Any) -> Cells:
    """The values of an Arrow column that stores them as NumPy does, without a copy; what is null is anything."""
    if not len(array):
        return np.zeros(0, kind)
    start = array.offset
    values: Cells = np.frombuffer(array.buffers()[1], kind, start + len(array))
    return values[start:]


def texts_of(array: pa.Array) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.uint8]]:
    """A column of texts as bytes: text k is data[offsets[k]:offsets[k + 1]]. A null is an empty one."""
    if not len(array):
        return np.zeros(1, np.int32), np.zeros(0, np.uint8)
    _, offsets, data = array.buffers()
    letters = np.zeros(0, np.uint8) if data is None or not data.size else np.frombuffer(data, np.uint8)
    return np.frombuffer(offsets, np.int32, len(array) + 1, 4 * array.offset), letters


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

    def cells(self, slots: Integers) -> tuple[Cells, Flags]:
        """The cells of these slots."""
        return self.values[slots], self.valid[slots]

    def cells_in(self, array: pa.Array) -> tuple[Cells, Flags]:
        """The values of an Arrow column of this kind, and which of them there are; no flags at all mean all of them."""
        if self.kind in PLAIN:
            values = values_of(array, _STORED[self.kind])
            return values, (array.is_valid().to_numpy(zero_copy_only=False) if array.null_count else _ALL)
        return unpacked(array)

    def compare(
        self, slots: Integers, rows: Integers, had: Flags, has: Flags, values: Cells, valid: Flags, changed: Flags
    ) -> None:
        """Set `changed` where rows of a batch differ from these slots."""
        if self.kind is DataType.TEXT:
            old, old_valid, new, new_valid = self.values[slots], self.valid[slots], values[rows], valid[rows]
            changed |= had & has & ((old_valid != new_valid) | (new_valid & old_valid & (old != new)))
        else:
            kernel.compare(slots, rows, had, has, values, valid, self.values, self.valid, changed)

    def write(self, slots: Integers, rows: Integers, has: Flags, values: Cells, valid: Flags) -> None:
        """Set the cells of these slots to rows of a batch, and to null where there `has` none to be."""
        if self.kind is DataType.TEXT:
            there = valid[rows] & has
            self.values[slots] = np.where(there, values[rows], _NOTHING)
            self.valid[slots] = there
        else:
            kernel.write(slots, rows, has, values, valid, self.values, self.valid)


class ChangedRows:
    """Rows of some slots as arrays, made into Arrow when they are asked for as a batch."""

    __slots__ = ("_batch", "_cells", "_keys", "_layout", "_slots")

    def __init__(
        self,
        layout: pa.Schema,
        slots: Integers,
        keys: Callable[[Integers], Mapping[str, pa.Array]],
        cells: Mapping[str, tuple[Cells, Flags, DataType]],
    ) -> None:
        self._layout, self._slots, self._keys, self._cells = layout, slots, keys, cells
        self._batch: pa.RecordBatch | None = None

    @property
    def batch(self) -> pa.RecordBatch:
        """The rows as a batch."""
        if self._batch is None:
            keys = self._keys(self._slots)
            columns = [keys[name] if name in keys else packed(*self._cells[name]) for name in self._layout.names]
            self._batch = pa.RecordBatch.from_arrays(columns, schema=self._layout)
        return self._batch

    def cells(self, column: str) -> tuple[Cells, Flags]:
        """The values of a column, and which of them there are."""
        found = self._cells.get(column)
        return unpacked(self.batch.column(column)) if found is None else found[:2]


def _filler(kind: DataType, count: int) -> Cells:
    """What stands in place of null: one thing only, so that equal states are equal bytes."""
    return np.full(count, None, object) if kind is DataType.TEXT else np.zeros(count, _STORED[kind])
