"""The latest table against a dictionary, on histories with late rows, repeats, deletions and new columns."""

from dataclasses import replace
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slackwater.core import (
    Column,
    DataType,
    Instant,
    Operation,
    Origin,
    Row,
    SchemaError,
    StoreError,
    TableSchema,
    Update,
)
from slackwater.core.arrow import to_batch
from slackwater.processing.arrival import RowFold
from slackwater.processing.columns import python_rows
from slackwater.processing.latest import LatestTable

KEYS: dict[DataType, st.SearchStrategy[Any]] = {
    DataType.TEXT: st.sampled_from(["", "a", "b", "é", "\U0001f600"]),
    DataType.BIGINT: st.sampled_from([-1, 0, 1, 2**62]),
    DataType.DOUBLE: st.sampled_from([0.0, -0.0, 1.5]),
    DataType.BOOLEAN: st.booleans(),
    DataType.TIMESTAMP: st.integers(-2, 2),
}
VALUES: dict[DataType, st.SearchStrategy[Any]] = {**KEYS, DataType.BIGINT: st.sampled_from([0, 1, 2**63 - 1, -(2**63)])}


@st.composite
def histories(draw: st.DrawFn) -> tuple[TableSchema, list[list[Update]]]:
    kinds = draw(st.lists(st.sampled_from(list(KEYS)), min_size=1, max_size=2))
    keys = tuple(Column(f"k{n}", kind, nullable=False) for n, kind in enumerate(kinds))
    values = draw(st.lists(st.sampled_from(list(VALUES)), max_size=3))
    columns = keys + tuple(Column(f"v{n}", kind) for n, kind in enumerate(values))
    table = TableSchema("t", columns, key=tuple(column.name for column in keys))

    def update() -> Update:
        key = tuple(draw(KEYS[kind]) for kind in kinds)
        row = (*key, *(draw(st.none() | VALUES[kind]) for kind in values))
        origin = Origin(draw(st.sampled_from(["a", "b", "\uffff", "\U0001f600"])), draw(st.integers(0, 3)))
        operation = draw(st.sampled_from([Operation.UPSERT] * 3 + [Operation.DELETE]))
        return Update("t", row, Instant(draw(st.integers(-2, 2))), origin, operation)

    batches = [[update() for _ in range(draw(st.integers(0, 6)))] for _ in range(draw(st.integers(1, 6)))]
    return table, batches


class Twin:
    """The same in a dictionary."""

    def __init__(self, table: TableSchema) -> None:
        self.table = table
        self.last: dict[Any, Update] = {}

    def fold(self, updates: list[Update]) -> None:
        for update in updates:
            key = self.table.key_of(update.row)
            if key not in self.last or update.rank >= self.last[key].rank:
                self.last[key] = update

    def rows(self) -> dict[Any, Row]:
        return {k: one.row for k, one in self.last.items() if one.operation is Operation.UPSERT}


@settings(max_examples=300, deadline=None)
@given(histories(), st.integers(0, 5))
def test_equals_a_dictionary_after_every_batch(history: tuple[TableSchema, list[list[Update]]], cut: int) -> None:
    table, batches = history
    latest, twin = LatestTable(table), Twin(table)
    for number, updates in enumerate(batches):
        if number == cut:
            state = latest.snapshot()
            latest = LatestTable.restore(state)
            assert latest.snapshot() == state
        before = twin.rows()
        twin.fold(updates)
        after = twin.rows()
        changes = latest.fold(to_batch(table, updates))
        latest._check()
        assert {table.key_of(row): row for row in python_rows(latest.rows)} == after
        told = {}
        for slot, had, has, old, new in zip(
            changes.slots.tolist(),
            changes.had.tolist(),
            changes.has.tolist(),
            python_rows(changes.before),
            python_rows(changes.after),
            strict=True,
        ):
            key = table.key_of(new)
            assert table.key_of(old) == key
            assert latest.find(key) == latest.slot_of(key) == slot
            told[key] = (old if had else None, new if has else None)
        assert told == {
            key: (before.get(key), after.get(key))
            for key in before.keys() | after.keys()
            if before.get(key) != after.get(key)
        }
        assert (np.diff(changes.slots) > 0).all()
        assert changes.times.tolist() == [twin.last[key].event_time for key in told]


@settings(max_examples=50, deadline=None)
@given(histories())
def test_changes_read_late_are_those_of_their_batch(history: tuple[TableSchema, list[list[Update]]]) -> None:
    table, batches = history
    early, late = LatestTable(table), LatestTable(table)
    read, kept = [], []
    for updates in batches:
        changes = early.fold(to_batch(table, updates))
        read.append((python_rows(changes.before), python_rows(changes.after)))
        kept.append(late.fold(to_batch(table, updates)))
    assert [(python_rows(changes.before), python_rows(changes.after)) for changes in kept] == read


QUOTES = TableSchema(
    "quotes", (Column("symbol", DataType.TEXT, nullable=False), Column("price", DataType.DOUBLE)), key=("symbol",)
)


def quote(symbol: str, price: float | None, time: int, operation: Operation = Operation.UPSERT) -> Update:
    return Update("quotes", (symbol, price), Instant(time), Origin("s", time), operation)


def test_a_deletion_is_remembered_against_late_rows() -> None:
    latest = LatestTable(QUOTES)
    latest.fold(to_batch(QUOTES, [quote("a", 1.0, 1)]))
    assert len(latest.fold(to_batch(QUOTES, [quote("a", None, 5, Operation.DELETE)]))) == 1
    assert len(latest.fold(to_batch(QUOTES, [quote("a", 2.0, 4)]))) == 0
    assert len(latest) == 0
    assert latest.fold(to_batch(QUOTES, [quote("a", 2.0, 6)])).has.tolist() == [True]


def test_a_key_may_be_named_before_there_is_a_row() -> None:
    latest = LatestTable(QUOTES)
    assert latest.find(("b",)) == -1
    assert latest.slot_of(("b",)) == 0
    assert latest.find(("b",)) == 0
    there, rows = latest.take(np.array([0]))
    assert there.tolist() == [False]
    assert python_rows(rows) == [("b", None)]
    assert latest.fold(to_batch(QUOTES, [quote("a", 1.0, -5), quote("b", 2.0, -5)])).slots.tolist() == [0, 1]


def test_columns_can_be_added_and_older_batches_still_fit() -> None:
    latest = LatestTable(QUOTES)
    latest.fold(to_batch(QUOTES, [quote("a", 1.0, 1)]))
    wider = QUOTES.with_column(Column("volume", DataType.BIGINT))
    latest.widen(wider)
    assert python_rows(latest.rows) == [("a", 1.0, None)]
    assert len(latest.fold(to_batch(QUOTES, [quote("a", 1.0, 2)]))) == 0
    latest.fold(to_batch(wider, [Update("quotes", ("a", 1.0, 2**62 + 1), Instant(3), Origin("s", 3))]))
    assert python_rows(latest.rows) == [("a", 1.0, 2**62 + 1)]


WIDE = TableSchema(
    "wide",
    (
        Column("d", DataType.DOUBLE),
        Column("k", DataType.TEXT, nullable=False),
        Column("n", DataType.BIGINT),
        Column("t", DataType.TIMESTAMP),
    ),
    key=("k",),
)


@pytest.mark.parametrize("key", ["k", "n"])
def test_rows_that_come_by_themselves(key: str, monkeypatch: pytest.MonkeyPatch) -> None:
    chosen = [column for column in WIDE.columns if column.name in {key, "d", "t"}]
    columns = tuple(replace(column, nullable=column.name != key) for column in chosen)
    table = TableSchema("wide", columns, key=(key,))
    random = Random(3)
    short = LatestTable(table)
    monkeypatch.setattr(RowFold, "is_possible", lambda columns: False)
    plain = LatestTable(table)
    monkeypatch.undo()
    taken = 0
    for turn in range(1500):
        cells: dict[str, Any] = {
            "k": random.choice(["", "a", "bc", "keys of more than eight bytes", f"key {turn // 20}"]),
            "n": random.choice([0, -1, 2**62, turn // 20]),
            "d": random.choice([None, 0.0, -0.0, 1.5, random.random()]),
            "t": random.choice([None, 0, 7, -(2**60)]),
        }
        row = tuple(cells[column.name] for column in columns)
        origin = Origin(random.choice("aaaaaaab"), random.randrange(3))
        operation = random.choice([Operation.UPSERT] * 4 + [Operation.DELETE])
        updates = [Update("wide", row, Instant(random.randrange(turn // 9 + 1)), origin, operation)]
        # The row stands somewhere in a larger batch, so that its cells begin anywhere in theirs.
        others = [quote_of(table, random) for _ in range(20)]
        batch = to_batch(table, [*others[: turn % 19], *updates, *others]).slice(turn % 19, 1)
        if turn % 300 == 299:
            short = LatestTable.restore(short.snapshot())
        changes = short.fold(batch)
        taken += short._row_fold is not None
        expected = plain.fold(batch)
        for name in ("slots", "had", "has", "times"):
            assert getattr(changes, name).tolist() == getattr(expected, name).tolist()
        assert changes.before.equals(expected.before)
        assert changes.after.equals(expected.after)
        assert short.snapshot() == plain.snapshot()
        short._check()
    assert taken > 1000


def quote_of(table: TableSchema, random: Random) -> Update:
    cells: dict[str, Any] = {"k": "x" * random.randrange(9), "n": 1, "d": random.choice([None, 2.0]), "t": None}
    row = tuple(cells[column.name] for column in table.columns)
    return Update("wide", row, Instant(0), Origin("other" * random.randrange(3), 0))


def test_a_number_names_its_key_whatever_its_type_in_python() -> None:
    for kind, key, same in ((DataType.DOUBLE, 5.0, 5), (DataType.DOUBLE, 0.0, -0.0), (DataType.BIGINT, 5, 5.0)):
        latest = LatestTable(TableSchema("t", (Column("k", kind, nullable=False),), key=("k",)))
        assert latest.slots_of([(key,), (same,)]).tolist() == [0, 0]
        for wrong in (True, "5", 5.5 if kind is DataType.BIGINT else float("inf")):
            with pytest.raises(SchemaError, match=f"is {kind.value} and cannot be"):
                latest.slot_of((wrong,))


def test_what_does_not_fit_is_refused() -> None:
    latest = LatestTable(QUOTES)
    with pytest.raises(SchemaError, match="has the columns symbol, price"):
        latest.fold(pa.RecordBatch.from_pydict({"symbol": pa.array(["a"])}))
    with pytest.raises(SchemaError, match="has the columns"):
        latest.fold(to_batch(QUOTES.with_column(Column("x", DataType.BIGINT)), []))
    with pytest.raises(SchemaError, match="is TEXT and cannot be 5"):
        latest.slot_of((5,))
    with pytest.raises(SchemaError, match="has 1 parts"):
        latest.slot_of(("a", "b"))
    with pytest.raises(StoreError, match="slots from 0 to -1"):
        latest.take(np.array([3]))
    with pytest.raises(StoreError, match="cannot be read"):
        LatestTable.restore(b"rubbish")
