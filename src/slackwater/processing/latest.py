"""Latest state of one table: updates folded into columns by slot, last writer wins.

Design
    Every key gets a *slot*, a number that stays its own for good, in the order in which keys are first met. Columns
    are arrays by slot. Of two updates of a key the one with the greater rank (event time, source, sequence) counts, so
    the state does not depend on the order in which rows come. A deletion keeps its rank: an older row that comes late
    does not bring the key back. That is why a slot is never given away, and why memory grows with the keys ever met.

    `fold` returns the net changes of a batch: of each key only its last row is looked at, and where that row equals the
    one that was there nothing changed. Columns of numbers are compared and written by compiled loops; what a batch does
    to them is kept as arrays, and becomes Arrow only where an operator asks for rows.

Invariants
    A slot without a row has null in every column but the key's. `_ranked` is False only for keys that a query named
    before any update did.
"""

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa

from slackwater.core.arrow import update_schema
from slackwater.core.errors import SchemaError, StoreError
from slackwater.core.schema import TableSchema
from slackwater.core.schema_codec import plain_schema, schema_of
from slackwater.core.types import DataType, Key, Scalar
from slackwater.core.update import Operation
from slackwater.kernels import row_fold as kernel
from slackwater.kernels.key_table import Letters, are_alike
from slackwater.kernels.ranks import settle
from slackwater.kernels.row_arrival import UNUSUAL, Ranks
from slackwater.processing import state
from slackwater.processing.arrival import RowFold
from slackwater.processing.base import Changes, Flags, Integers
from slackwater.processing.columns import (
    Cells,
    ChangedRows,
    StoredColumn,
    packed,
    rows_schema,
    texts_of,
    unpacked,
    values_of,
)
from slackwater.processing.key_index import KeyIndex, TextKeys, key_index

CellsOf = dict[str, tuple[Cells, Flags, DataType]]
"""Cells of some slots by column."""
_FIRST_ROOM = 64
_NONE: Integers = np.zeros(0, np.int64)
_SCANNED = 16
"""Where more than one slot in so many is met, reading all slots costs less than sorting those that were met."""


class LatestTable:
    """The latest rows of one table; implements `base.Latest`."""

    def __init__(self, schema: TableSchema) -> None:
        self._index: KeyIndex = key_index([schema.column(name).type for name in schema.key])
        self._sources = TextKeys()
        self._source_order: Integers = np.zeros(0, np.int64)
        self._last_source: tuple[str | None, Letters, int] = None, np.zeros(0, np.uint8), 0
        """Source of the last row that came by itself: its name, the same as bytes, and its code."""
        self._row_fold: RowFold | None = None
        """Goes when an array that it knows moves."""
        self._room = _FIRST_ROOM
        self._there: Flags = np.zeros(self._room, np.bool_)
        self._ranked: Flags = np.zeros(self._room, np.bool_)
        self._times: Integers = np.zeros(self._room, np.int64)
        self._from: Integers = np.zeros(self._room, np.int64)
        self._sequences: Integers = np.zeros(self._room, np.int64)
        self._scratch: Integers = np.full(self._room, -1)
        self._columns: dict[str, StoredColumn] = {}
        self._rows: pa.RecordBatch | None = None
        self._adopt(schema)

    def _adopt(self, schema: TableSchema) -> None:
        self._schema = schema
        self._layout = update_schema(schema)
        self._rows_layout = rows_schema(schema)
        self._key_places = [schema.index(name) for name in schema.key]
        self._key_types = [schema.column(name).type for name in schema.key]
        for column in schema.columns:
            if column.name not in schema.key and column.name not in self._columns:
                self._columns[column.name] = StoredColumn.empty(column.type, self._room)
        self._value_columns = [(schema.index(name), name, column) for name, column in self._columns.items()]
        self._is_plain = RowFold.is_possible(self._value_columns)
        self._rows = self._row_fold = None

    @property
    def schema(self) -> TableSchema:
        """The table."""
        return self._schema

    @property
    def rows(self) -> pa.RecordBatch:
        """The rows that there are now, in order of their slots."""
        if self._rows is None:
            self._rows = self._read(self.slots)
        return self._rows

    @property
    def slots(self) -> Integers:
        """The slots of those rows."""
        return np.flatnonzero(self._there)

    def __len__(self) -> int:
        return int(np.count_nonzero(self._there))

    def slot_of(self, key: Key) -> int:
        """The number of a key, given now if it has none."""
        return int(self.slots_of([key])[0])

    def slots_of(self, keys: Sequence[Key]) -> Integers:
        """The numbers of some keys, given now to those that have none."""
        for key in keys:
            if len(key) != len(self._key_types):
                raise SchemaError(f"a key of table {self._schema.name} has {len(self._key_types)} parts, this is {key}")
        for place, kind in enumerate(self._key_types):
            parts = [key[place] for key in keys]
            is_text = kind is DataType.TEXT and set(map(type, parts)) <= {str}
            if not is_text and not all(map(kind.holds, parts)):
                keys = [self._fitted(key) for key in keys]
                break
        slots = self._index.number_keys(keys)
        self._make_room()
        return slots

    def _fitted(self, key: Key) -> Key:
        """A key whose numbers have the types of their columns; refused where they cannot have them."""
        return tuple(
            self._fitted_part(name, kind, part)
            for name, kind, part in zip(self._schema.key, self._key_types, key, strict=True)
        )

    def _fitted_part(self, name: str, kind: DataType, part: Scalar) -> Scalar:
        if not kind.holds(part) and isinstance(part, int | float) and not isinstance(part, bool):
            number = float(part) if kind is DataType.DOUBLE else int(part) if part == part // 1 else part
            if number == part and kind.holds(number):
                return number
        if not kind.holds(part):
            raise SchemaError(f"key column {name} of table {self._schema.name} is {kind.value} and cannot be {part!r}")
        return part

    def find(self, key: Key) -> int:
        """The number of a key, −1 where it has none: asking gives it none."""
        try:
            fitted = self._fitted(key)
        except SchemaError:
            return -1
        return int(self._index.number_keys([fitted], adding=False)[0])

    @property
    def latest_time(self) -> int:
        """The latest event time of any key, 0 where there is none."""
        return int(self._times[self._ranked].max(initial=0))

    def last_sequence(self, source: str) -> int:
        """The greatest sequence number among the keys whose last update is of a source; -1 where there is none."""
        code = self._sources.number_keys([(source,)], adding=False)
        mine = self._ranked & (self._from == code)
        return int(self._sequences[mine].max(initial=-1))

    def take(self, slots: Integers) -> tuple[Flags, pa.RecordBatch]:
        """Which of these slots have a row, and their rows."""
        if len(slots) and not 0 <= slots.min() <= slots.max() < len(self._index):
            raise StoreError(f"table {self._schema.name} has slots from 0 to {len(self._index) - 1} only")
        return self._there[slots], self._read(slots)

    def widen(self, schema: TableSchema) -> None:
        """Take a definition that adds nullable columns; rows that are there have null in them."""
        self._schema.check_change(schema)
        self._adopt(schema)

    def fold(self, batch: pa.RecordBatch) -> Changes:
        """Apply a batch of updates, and return its net changes."""
        batch = self._checked(batch)
        changes = self._fold_row(batch) if batch.num_rows == 1 else None
        return self._fold(batch.columns) if changes is None else changes

    def _fold_row(self, batch: pa.RecordBatch) -> Changes | None:
        """Fold a row that comes by itself; None, and nothing has happened, where that is not as simple."""
        keys, (name, source, code) = self._index.table, self._last_source
        if keys is None or name is None or not self._is_plain:
            return None
        if self._row_fold is None:
            self._row_fold = RowFold(len(self._schema.columns), self._key_places[0], self._value_columns, self._ranks)
        slot, had_has, before, after = self._row_fold.fold(batch, keys, source, code)
        if slot == UNUSUAL:
            return None
        slots = np.array([slot]) if slot >= 0 else _NONE
        if slot >= 0:
            self._rows = None
        return self._changes(slots, had_has[: len(slots)], had_has[1 : len(slots) + 1], before, after)

    def _fold(self, arrays: list[pa.Array]) -> Changes:
        slots = self._last_in(arrays)
        rows, (had, has, changed) = np.empty(len(slots), np.int64), np.empty((3, len(slots)), np.bool_)
        operations = values_of(arrays[-4], np.int8)
        kernel.begin(self._scratch, slots, operations, int(Operation.UPSERT), self._there, rows, had, has, changed)
        came: list[tuple[str, StoredColumn, Cells, Flags]] = []
        for place, name, column in self._value_columns:
            values, valid = column.cells_in(arrays[place])
            column.compare(slots, rows, had, has, values, valid, changed)
            came.append((name, column, values, valid))
        if np.count_nonzero(changed) < len(slots):
            slots, rows, had, has = slots[changed], rows[changed], had[changed], has[changed]
        before: CellsOf = {}
        after: CellsOf = {}
        for name, column, values, valid in came:
            before[name] = *column.cells(slots), column.kind
            column.write(slots, rows, has, values, valid)
            after[name] = *column.cells(slots), column.kind
        if len(slots):
            self._there[slots] = has
            self._rows = None
        return self._changes(slots, had, has, before, after)

    def _changes(self, slots: Integers, had: Flags, has: Flags, before: CellsOf, after: CellsOf) -> Changes:
        old = ChangedRows(self._rows_layout, slots, self._key_columns, before)
        new = ChangedRows(self._rows_layout, slots, self._key_columns, after)
        return Changes(self._schema.name, slots, had, has, old, new, self._times[slots])

    def snapshot(self) -> bytes:
        """The whole state."""
        top = len(self._index)
        every = np.arange(top)
        keys = self._key_columns(every)
        cells = [
            unpacked(keys[name])
            if name in keys
            else (self._columns[name].values[:top], self._columns[name].valid[:top])
            for name in self._rows_layout.names
        ]
        return state.pack(
            "latest table",
            {
                "schema": plain_schema(self._schema),
                "sources": self._source_names(),
                "there": self._there[:top],
                "ranked": self._ranked[:top],
                "times": self._times[:top],
                "from": self._from[:top],
                "sequences": self._sequences[:top],
                "values": [values for values, _ in cells],
                "valid": [valid for _, valid in cells],
            },
        )

    @classmethod
    def restore(cls, body: bytes) -> "LatestTable":
        """The table that a snapshot was taken of."""
        parts = state.unpack("latest table", body)
        schema = schema_of(parts["schema"])
        table = cls(schema)
        table._sources.number_keys([(name,) for name in parts["sources"]])
        table._there, table._ranked, table._times = parts["there"], parts["ranked"], parts["times"]
        table._from, table._sequences = parts["from"], parts["sequences"]
        table._room = len(table._there)
        table._scratch = np.full(table._room, -1)
        cells = dict(zip(table._rows_layout.names, zip(parts["values"], parts["valid"], strict=True), strict=True))
        for name, column in table._columns.items():
            column.values, column.valid = cells[name]
        keys = [packed(cells[name][0], cells[name][1], schema.column(name).type) for name in schema.key]
        table._order_sources()
        slots = table._index.number(keys)
        if not np.array_equal(slots, np.arange(table._room)):
            raise StoreError(f"the state of table {schema.name} has a key twice; begin from the log")
        return table

    def _check(self) -> None:
        """Assert the invariants."""
        top = len(self._index)
        keys = [self._key_columns(np.arange(top))[name] for name in self._schema.key]
        assert self._index.number(keys, adding=False).tolist() == list(range(top))
        assert not self._there[top:].any()
        assert (self._scratch == -1).all()
        assert not (self._there & ~self._ranked).any()
        for column in self._columns.values():
            assert not (column.valid & ~self._there).any()

    def _checked(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The batch in today's layout; one written before columns were added lacks them at the end of its values."""
        layout = self._layout
        if batch.schema.equals(layout):
            return batch
        names, types = batch.schema.names, batch.schema.types
        width = len(self._schema.columns)
        count = len(names) - (len(layout) - width)
        expected = [*range(max(count, 0)), *range(width, len(layout))]
        if count > width or any(
            layout.field(k).name != name or layout.field(k).type != kind
            for k, name, kind in zip(expected, names, types, strict=True)
        ):
            raise SchemaError(
                f"an update batch of table {self._schema.name} has the columns {', '.join(layout.names)}; "
                f"this one has {', '.join(names)}"
            )
        missing = [pa.nulls(batch.num_rows, layout.field(k).type) for k in range(count, width)]
        arrays = [*batch.columns[:count], *missing, *batch.columns[count:]]
        return pa.RecordBatch.from_arrays(arrays, schema=layout)

    def _last_in(self, arrays: list[pa.Array]) -> Integers:
        """The slots of which the batch has a row that counts now, in order; `_scratch` has that row of each."""
        slots = self._index.number([arrays[place] for place in self._key_places])
        self._make_room()
        times, sources, sequences = arrays[-3:]
        won: Integers = np.empty(len(slots), np.int64)
        codes = self._source_codes(sources)
        count = settle(
            slots,
            values_of(times, np.int64),
            codes,
            values_of(sequences, np.int64),
            self._source_order,
            self._ranked,
            self._times,
            self._from,
            self._sequences,
            self._scratch,
            won,
        )
        won = won[:count]
        if _SCANNED * count > len(self._index):
            kernel.scan(self._scratch, len(self._index), won)
        else:
            won.sort()
        return won

    def _source_codes(self, column: pa.Array) -> Integers:
        if len(column) == 1:
            # A row that comes by itself is mostly of the source of the row before it.
            name = column[0].as_py()
            if name != self._last_source[0]:
                code = int(self._source_codes_in(column)[0])
                self._last_source = name, np.frombuffer(name.encode(), np.uint8), code
            return np.array([self._last_source[2]])
        return self._source_codes_in(column)

    def _source_codes_in(self, column: pa.Array) -> Integers:
        offsets, data = texts_of(column)
        # A batch is usually of one source; asking whether that is so is cheaper than looking each of them up.
        alike = len(column) > 1 and are_alike(offsets, data)
        count = len(self._sources)
        codes = self._sources.number_texts(offsets[:2] if alike else offsets, data)
        if len(self._sources) > count:
            self._order_sources()
        return np.full(len(column), codes[0]) if alike else codes

    def _source_names(self) -> list[str]:
        names: list[str] = self._sources.columns(np.arange(len(self._sources)))[0].to_pylist()
        return names

    def _order_sources(self) -> None:
        """Where each source stands in the order of names, which is that of code points as everywhere."""
        names = self._source_names()
        self._source_order = np.empty(len(names), np.int64)
        self._source_order[sorted(range(len(names)), key=names.__getitem__)] = np.arange(len(names))
        self._row_fold = None

    @property
    def _ranks(self) -> Ranks:
        return Ranks(
            self._source_order,
            self._ranked,
            self._times,
            self._from,
            self._sequences,
            self._scratch,
            self._there,
        )

    def _make_room(self) -> None:
        if len(self._index) <= self._room:
            return
        room = max(_FIRST_ROOM, 2 * len(self._index))
        more = room - self._room
        for name in ("_there", "_ranked"):
            setattr(self, name, np.concatenate([getattr(self, name), np.zeros(more, np.bool_)]))
        for name in ("_times", "_from", "_sequences"):
            setattr(self, name, np.concatenate([getattr(self, name), np.zeros(more, np.int64)]))
        self._scratch = np.concatenate([self._scratch, np.full(more, -1)])
        for column in self._columns.values():
            column.grow(room)
        self._room = room
        self._row_fold = None

    def _key_columns(self, slots: Integers) -> Mapping[str, pa.Array]:
        """The key columns of these slots, by name."""
        return dict(zip(self._schema.key, self._index.columns(slots), strict=True))

    def _read(self, slots: Integers) -> pa.RecordBatch:
        """The rows of these slots."""
        keys = self._key_columns(slots)
        columns = [
            keys[name] if name in keys else packed(*self._columns[name].cells(slots), self._columns[name].kind)
            for name in self._rows_layout.names
        ]
        return pa.RecordBatch.from_arrays(columns, schema=self._rows_layout)
