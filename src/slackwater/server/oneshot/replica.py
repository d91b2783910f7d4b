"""A worker's replica of a table: columns by slot, changed in place between questions and read by DuckDB without a copy.

Design
    Columns of fixed width are arrays by slot. A text is a *view* of 16 bytes, as in Arrow: its length, its beginning
    and where the rest is. So a text changes in place too; the letters themselves are appended to a heap, and those that
    nothing points to any more are let go with the stream they came from.

Invariants
    Arrow arrays made by `rows` share the memory of the columns. They are read by one question and are let go before
    the next piece of the stream is applied.
"""

import os

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from slackwater.core.arrow import ARROW_TYPES
from slackwater.core.errors import StoreError
from slackwater.core.schema import TableSchema
from slackwater.core.types import DataType
from slackwater.processing.base import Flags, Integers
from slackwater.processing.columns import Cells, unpacked
from slackwater.server.oneshot.base import PRESENT, SLOT, stream_schema

_FIRST_ROOM = 1_024
_MOST_HEAP = 1 << 30
"""Bytes of one heap: a view has 31 bits for where a text begins."""
_INLINE = 12
"""Texts of so many bytes stand in the view itself."""
_LOW = (1 << 32) - 1


class _Heap:
    """Letters of texts, in blocks that grow."""

    def __init__(self) -> None:
        self.blocks: list[npt.NDArray[np.uint8]] = []
        self._used = 0

    def add(self, letters: pa.Buffer) -> tuple[int, int]:
        """Append letters; returns the number of their block and where in it they begin."""
        size = letters.size
        if not self.blocks or self._used + size > _MOST_HEAP:
            self.blocks.append(np.zeros(0, np.uint8))
            self._used = 0
        block, start = self.blocks[-1], self._used
        if start + size > len(block):
            grown = np.zeros(max(start + size, 2 * len(block)), np.uint8)
            grown[:start] = block[:start]
            self.blocks[-1] = block = grown
        block[start : start + size] = np.frombuffer(letters, np.uint8)
        self._used += size
        return len(self.blocks) - 1, start


class _Column:
    """Cells of one column by slot."""

    def __init__(self, kind: DataType) -> None:
        self.kind = kind
        self.values = _room(kind, 0)
        self.valid: Flags = np.zeros(0, np.bool_)
        self._heap = _Heap()

    def grow(self, room: int) -> None:
        """Make room for this many cells."""
        values, valid = _room(self.kind, room), np.zeros(room, np.bool_)
        values[: len(self.values)], valid[: len(self.valid)] = self.values, self.valid
        self.values, self.valid = values, valid

    def write(self, slots: Integers, cells: pa.Array) -> None:
        """Set the cells of these slots."""
        if self.kind is DataType.TEXT:
            self.values[slots] = self._views(cells)
            self.valid[slots] = cells.is_valid().to_numpy(zero_copy_only=False)
        else:
            self.values[slots], self.valid[slots] = unpacked(cells)

    def _views(self, cells: pa.Array) -> Cells:
        cast = cells.cast(pa.string_view())
        _, views, *letters = cast.buffers()
        found = np.frombuffer(views, np.int64, 2 * len(cells), 16 * cast.offset).reshape(-1, 2).copy()
        places = [self._heap.add(one) for one in letters]
        long = (found[:, 0] & _LOW) > _INLINE
        if long.any():
            where = found[long, 1]
            of, start = where & _LOW, where >> 32
            blocks, starts = (np.array(one, np.int64)[of] for one in zip(*places, strict=True))
            found[long, 1] = blocks | (start + starts) << 32
        return found

    def array(self, count: int) -> pa.Array:
        """The first cells as an Arrow array over this memory."""
        valid = self.valid[:count]
        mask = None if valid.all() else pa.py_buffer(np.packbits(valid, bitorder="little"))
        if self.kind is DataType.TEXT:
            letters = [pa.py_buffer(block) for block in self._heap.blocks]
            return pa.Array.from_buffers(pa.string_view(), count, [mask, pa.py_buffer(self.values[:count]), *letters])
        values = self.values[:count]
        if self.kind is DataType.BOOLEAN:
            values = np.packbits(values, bitorder="little")
        return pa.Array.from_buffers(ARROW_TYPES[self.kind], count, [mask, pa.py_buffer(values)])


class TableReplica:
    """A table as its stream tells it; the descriptor is closed with the replica."""

    def __init__(self, number: int, schema: TableSchema, descriptor: int) -> None:
        self.number = number
        self.schema = schema
        self._descriptor = descriptor
        self._at = 0
        self._layout = stream_schema(schema)
        self._columns = [_Column(column.type) for column in schema.columns]
        self._present: Flags = np.zeros(0, np.bool_)
        self._count = 0

    def close(self) -> None:
        """Let go of the stream."""
        os.close(self._descriptor)

    def read(self, end: int) -> None:
        """Apply the stream up to here."""
        while self._at < end:
            size = int.from_bytes(os.pread(self._descriptor, 8, self._at), "little")
            piece = os.pread(self._descriptor, size, self._at + 8)
            if len(piece) < size:
                raise StoreError(f"the stream of table {self.schema.name} ends within a piece")
            self.apply(pa.ipc.read_record_batch(pa.py_buffer(piece), self._layout))
            self._at += 8 + size

    def apply(self, piece: pa.RecordBatch) -> None:
        """Take in rows by slot."""
        slots = piece.column(SLOT).to_numpy()
        self._count = max(self._count, int(slots.max(initial=-1)) + 1)
        if self._count > len(self._present):
            self._grow(max(_FIRST_ROOM, self._count + self._count // 2))
        self._present[slots] = piece.column(PRESENT).to_numpy(zero_copy_only=False)
        for column, cells in zip(self._columns, piece.columns, strict=False):
            column.write(slots, cells)

    def rows(self) -> pa.Table:
        """The columns by slot, in order, with `PRESENT` as the last where a slot has no row."""
        arrays = [column.array(self._count) for column in self._columns]
        names = [column.name for column in self.schema.columns]
        if not self.all_present:
            present = np.packbits(self._present[: self._count], bitorder="little")
            arrays.append(pa.Array.from_buffers(pa.bool_(), self._count, [None, pa.py_buffer(present)]))
            names.append(PRESENT)
        return pa.table(arrays, names)

    @property
    def all_present(self) -> bool:
        """True if every slot has a row."""
        return bool(self._present[: self._count].all())

    def _grow(self, room: int) -> None:
        present = np.zeros(room, np.bool_)
        present[: len(self._present)] = self._present
        self._present = present
        for column in self._columns:
            column.grow(room)


def _room(kind: DataType, count: int) -> Cells:
    if kind is DataType.TEXT:
        return np.zeros((count, 2), np.int64)
    return np.zeros(count, {DataType.BOOLEAN: np.bool_, DataType.DOUBLE: np.float64}.get(kind, np.int64))
