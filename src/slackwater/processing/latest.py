"""Latest state of one table: updates folded into columns by slot, last writer wins.

Design
    Every key gets a *slot*, a number that stays its own for good, in the order in which keys are first met. Columns
    are arrays by slot. Of two updates of a key the one with the greater rank (event time, source, sequence) counts, so
    the state does not depend on the order in which rows come. A deletion keeps its rank: an older row that comes late
    does not bring the key back. That is why a slot is never given away, and why memory grows with the keys ever met.

    `fold` returns the net changes of a batch: of each key only its last row is looked at, and where that row equals the
    one that was there nothing changed. The key → slot index is a Python dictionary asked through `map`.

Invariants
    A slot without a row has null in every column but the key's. `_ranked` is False only for keys that a query named
    before any update did.
"""

from itertools import repeat
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from slackwater.core.arrow import EVENT_TIME, OPERATION, SEQUENCE, SOURCE, update_schema
from slackwater.core.errors import SchemaError, StoreError
from slackwater.core.schema import TableSchema
from slackwater.core.schema_codec import plain_schema, schema_of
from slackwater.core.types import DataType, Key
from slackwater.core.update import Operation
from slackwater.kernels.ranks import settle
from slackwater.processing import state
from slackwater.processing.base import Changes, Flags, Integers
from slackwater.processing.columns import Cells, StoredColumn, python_values, rows_schema, unpacked

_FIRST_ROOM = 64


class LatestTable:
    """The latest rows of one table; implements `base.Latest`."""

    def __init__(self, schema: TableSchema) -> None:
        self._index: dict[Any, int] = {}
        self._sources: dict[str, int] = {}
        self._source_order: Integers = np.zeros(0, np.int64)
        self._room = _FIRST_ROOM
        self._there: Flags = np.zeros(self._room, np.bool_)
        self._ranked: Flags = np.zeros(self._room, np.bool_)
        self._times: Integers = np.zeros(self._room, np.int64)
        self._from: Integers = np.zeros(self._room, np.int64)
        self._sequences: Integers = np.zeros(self._room, np.int64)
        self._scratch: Integers = np.full(self._room, -1)
        self._columns = [StoredColumn.empty(column.type, self._room) for column in schema.columns]
        self._rows: pa.RecordBatch | None = None
        self._adopt(schema)

    def _adopt(self, schema: TableSchema) -> None:
        self._schema = schema
        self._layout = update_schema(schema)
        self._rows_layout = rows_schema(schema)
        self._key_places = [schema.index(name) for name in schema.key]
        keys = set(self._key_places)
        self._value_places = [place for place in range(len(schema.columns)) if place not in keys]
        self._rows = None

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
        if len(key) != len(self._key_places):
            raise SchemaError(f"a key of table {self._schema.name} has {len(self._key_places)} parts, this is {key}")
        found = self._index.get(key if len(key) > 1 else key[0])
        if found is not None:
            return found
        for name, part in zip(self._schema.key, key, strict=True):
            if not self._schema.column(name).type.holds(part):
                kind = self._schema.column(name).type.value
                raise SchemaError(f"key column {name} of table {self._schema.name} is {kind} and cannot be {part!r}")
        slot = self._index[key if len(key) > 1 else key[0]] = len(self._index)
        self._make_room()
        for place, part in zip(self._key_places, key, strict=True):
            column = self._columns[place]
            column.values[slot] = part + 0.0 if isinstance(part, float) else part  # zero has one sign only
            column.valid[slot] = True
        return slot

    def find(self, key: Key) -> int:
        """The number of a key, −1 where it has none: asking gives it none."""
        return self._index.get(key if len(key) > 1 else key[0], -1)

    @property
    def latest_time(self) -> int:
        """The latest event time of any key, 0 where there is none."""
        return int(self._times[self._ranked].max(initial=0))

    def last_sequence(self, source: str) -> int:
        """The greatest sequence number among the keys whose last update is of a source; -1 where there is none."""
        mine = self._ranked & (self._from == self._sources.get(source, -1))
        return int(self._sequences[mine].max(initial=-1))

    def take(self, slots: Integers) -> tuple[Flags, pa.RecordBatch]:
        """Which of these slots have a row, and their rows."""
        if len(slots) and not 0 <= slots.min() <= slots.max() < len(self._index):
            raise StoreError(f"table {self._schema.name} has slots from 0 to {len(self._index) - 1} only")
        return self._there[slots], self._read(slots)

    def widen(self, schema: TableSchema) -> None:
        """Take a definition that adds nullable columns; rows that are there have null in them."""
        self._schema.check_change(schema)
        added = schema.columns[len(self._columns) :]
        self._columns += [StoredColumn.empty(column.type, self._room) for column in added]
        self._adopt(schema)

    def fold(self, batch: pa.RecordBatch) -> Changes:
        """Apply a batch of updates, and return its net changes."""
        batch = self._checked(batch)
        slots = self._slots_in(batch)
        winners, chosen = self._last_in(batch, slots)
        had = self._there[winners]
        has = batch.column(OPERATION).to_numpy()[chosen] == Operation.UPSERT
        changed = had != has
        cells: dict[int, tuple[Cells, Flags]] = {}
        for place in self._value_places:
            values, valid = (cell[chosen] for cell in unpacked(batch.column(place)))
            cells[place] = (values, valid)
            column = self._columns[place]
            old_valid = column.valid[winners]
            changed |= had & has & ((old_valid != valid) | (valid & old_valid & (column.values[winners] != values)))

        slots, chosen, had, has = winners[changed], chosen[changed], had[changed], has[changed]
        before = self._read(slots, self._keys_in(batch, chosen, slots))
        stays, goes = slots[has], slots[~has]
        for place, (values, valid) in cells.items():
            self._columns[place].write(stays, values[changed][has], valid[changed][has])
            if len(goes):
                self._columns[place].clear(goes)
        self._there[slots] = has
        if len(slots):
            self._rows = None
        keys = {place: before.column(place) for place in self._key_places}
        return Changes(self._schema.name, slots, had, has, before, self._read(slots, keys), self._times[slots])

    def snapshot(self) -> bytes:
        """The whole state."""
        top = len(self._index)
        return state.pack(
            "latest table",
            {
                "schema": plain_schema(self._schema),
                "sources": list(self._sources),
                "there": self._there[:top],
                "ranked": self._ranked[:top],
                "times": self._times[:top],
                "from": self._from[:top],
                "sequences": self._sequences[:top],
                "values": [column.values[:top] for column in self._columns],
                "valid": [column.valid[:top] for column in self._columns],
            },
        )

    @classmethod
    def restore(cls, body: bytes) -> "LatestTable":
        """The table that a snapshot was taken of."""
        parts = state.unpack("latest table", body)
        schema = schema_of(parts["schema"])
        table = cls(schema)
        table._sources = {name: code for code, name in enumerate(parts["sources"])}
        table._order_sources()
        table._there, table._ranked, table._times = parts["there"], parts["ranked"], parts["times"]
        table._from, table._sequences = parts["from"], parts["sequences"]
        table._room = len(table._there)
        table._scratch = np.full(table._room, -1)
        table._columns = [
            StoredColumn(column.type, values, valid)
            for column, values, valid in zip(schema.columns, parts["values"], parts["valid"], strict=True)
        ]
        every = np.arange(table._room)
        keys = table._keys([table._columns[place].read(every) for place in table._key_places])
        table._index = {key: slot for slot, key in enumerate(keys)}
        return table

    def _check(self) -> None:
        """Assert the invariants."""
        top = len(self._index)
        assert sorted(self._index.values()) == list(range(top))
        assert not self._there[top:].any()
        assert (self._scratch == -1).all()
        assert not (self._there & ~self._ranked).any()
        for place in self._value_places:
            assert not (self._columns[place].valid & ~self._there).any()

    def _checked(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The batch in today's layout; one written before columns were added lacks them at the end of its values."""
        layout = self._layout
        if batch.schema.equals(layout):
            return batch
        names, types = batch.schema.names, batch.schema.types
        count = len(names) - (len(layout) - len(self._columns))
        expected = [*range(max(count, 0)), *range(len(self._columns), len(layout))]
        if count > len(self._columns) or any(
            layout.field(k).name != name or layout.field(k).type != kind
            for k, name, kind in zip(expected, names, types, strict=True)
        ):
            raise SchemaError(
                f"an update batch of table {self._schema.name} has the columns {', '.join(layout.names)}; "
                f"this one has {', '.join(names)}"
            )
        missing = [pa.nulls(batch.num_rows, layout.field(k).type) for k in range(count, len(self._columns))]
        arrays = [*batch.columns[:count], *missing, *batch.columns[count:]]
        return pa.RecordBatch.from_arrays(arrays, schema=layout)

    def _keys(self, columns: list[pa.Array]) -> list[Any]:
        if len(columns) == 1:
            return python_values(columns[0])
        return list(zip(*map(python_values, columns), strict=True))

    def _slots_in(self, batch: pa.RecordBatch) -> Integers:
        """The slot of each row's key, new ones for keys that were never met."""
        keys = self._keys([batch.column(place) for place in self._key_places])
        slots = np.fromiter(map(self._index.get, keys, repeat(-1)), np.int64, len(keys))
        new = np.flatnonzero(slots < 0)
        if len(new):
            for row in new.tolist():
                slots[row] = self._index.setdefault(keys[row], len(self._index))
            self._make_room()
            for place in self._key_places:
                values, valid = unpacked(batch.column(place).take(pa.array(new)))
                # Zero has one sign only: 0.0 and −0.0 are the same key.
                self._columns[place].write(slots[new], values + 0.0 if values.dtype == np.float64 else values, valid)
        return slots

    def _last_in(self, batch: pa.RecordBatch, slots: Integers) -> tuple[Integers, Integers]:
        """The slots of which the batch has a row that counts now, in order, and that row of each."""
        times, _ = unpacked(batch.column(EVENT_TIME))
        won = np.empty(len(slots), np.int64)
        count = settle(
            slots,
            times,
            self._source_codes(batch.column(SOURCE)),
            batch.column(SEQUENCE).to_numpy(),
            self._source_order,
            self._ranked,
            self._times,
            self._from,
            self._sequences,
            self._scratch,
            won,
        )
        winners = np.sort(won[:count])
        chosen = self._scratch[winners]
        self._scratch[winners] = -1
        return winners, chosen

    def _source_codes(self, column: pa.Array) -> Integers:
        # A batch is usually of one source that is known; asking whether that is so is cheaper than encoding.
        code = self._sources.get(column[0].as_py()) if len(column) else None
        if code is not None and pc.all(pc.equal(column, column[0])).as_py():
            return np.full(len(column), code)
        encoded = column.dictionary_encode()
        names = encoded.dictionary.to_pylist()
        count = len(self._sources)
        codes = np.array([self._sources.setdefault(name, len(self._sources)) for name in names], np.int64)
        if len(self._sources) > count:
            self._order_sources()
        found: Integers = codes[encoded.indices.to_numpy()]
        return found

    def _order_sources(self) -> None:
        """Where each source stands in the order of names, which is that of code points as everywhere."""
        names = list(self._sources)
        self._source_order = np.empty(len(names), np.int64)
        self._source_order[sorted(range(len(names)), key=names.__getitem__)] = np.arange(len(names))

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
        for column in self._columns:
            column.grow(room)
        self._room = room

    def _keys_in(self, batch: pa.RecordBatch, chosen: Integers, slots: Integers) -> dict[int, pa.Array]:
        """The key columns of some slots, of which a batch has rows: texts are cheaper to take from there."""
        return {
            place: batch.column(place).take(pa.array(chosen)) if column.kind is DataType.TEXT else column.read(slots)
            for place, column in ((place, self._columns[place]) for place in self._key_places)
        }

    def _read(self, slots: Integers, keys: dict[int, pa.Array] | None = None) -> pa.RecordBatch:
        """The rows of these slots; `keys` are their key columns, where they are at hand."""
        at_hand = keys or {}
        columns = [
            at_hand[place] if place in at_hand else column.read(slots) for place, column in enumerate(self._columns)
        ]
        return pa.RecordBatch.from_arrays(columns, schema=self._rows_layout)
