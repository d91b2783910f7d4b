"""Histories of two tables with everything in them, and the plain fold they are compared with."""

from dataclasses import dataclass, replace
from pathlib import Path
from random import Random

import pyarrow as pa
import pytest

from slackwater.core import Column, DataType, Instant, Operation, Origin, TableSchema, Update
from slackwater.core.arrow import INSTANT, QUARANTINE, from_batch, to_batch
from slackwater.log import LocalLog, Quarantined, Record, TableDefined, Updates
from slackwater.pipeline.tables.snapshot import TableSnapshot

DAY = 24 * 3600 * 1_000_000
QUOTES = TableSchema(
    "quotes",
    (Column("symbol", DataType.TEXT, nullable=False), Column("price", DataType.DOUBLE)),
    key=("symbol",),
)
ROOMS = TableSchema(
    "rooms / 1",
    (
        Column("floor", DataType.BIGINT, nullable=False),
        Column("door", DataType.TEXT, nullable=False),
        Column("celsius", DataType.DOUBLE),
        Column("open", DataType.BOOLEAN),
        Column("at", DataType.TIMESTAMP),
    ),
    key=("floor", "door"),
    event_time="at",
)

Row = tuple[object, ...]


@dataclass(frozen=True)
class History:
    """Records as they stand in a log, and what should come of them."""

    records: tuple[Record, ...]

    def updates(self, table: TableSchema) -> list[Update]:
        """Every update of a table, in order, repeats included."""
        batches = [one.batch for one in self.records if isinstance(one, Updates) and one.table == table.name]
        return [update for batch in batches for update in from_batch(table, batch)]

    def latest(self, table: TableSchema) -> set[Row]:
        """The fold, as plainly as it can be said."""
        last: dict[Row, Update] = {}
        for update in self.updates(table):
            key = table.key_of(update.row)
            if key not in last or update.rank > last[key].rank:
                last[key] = update
        return {update.row for update in last.values() if update.operation is Operation.UPSERT}

    def refused(self) -> list[str]:
        """The rows that were refused."""
        batches = [one.batch for one in self.records if isinstance(one, Quarantined)]
        return sorted(row for batch in batches for row in batch.column("row").to_pylist())

    def upto(self, position: int) -> "History":
        """What of it lies before a position."""
        kept: list[Record] = []
        for record in self.records:
            rows = record.batch.num_rows if isinstance(record, Updates | Quarantined) else 1
            if position <= 0:
                break
            if isinstance(record, Updates | Quarantined) and rows > position:
                record = replace(record, batch=record.batch.slice(0, position))
            kept.append(record)
            position -= rows
        return History(tuple(kept))

    def write(self, folder: Path) -> Path:
        """Put it into a log."""
        with LocalLog(folder) as log:
            log.append(self.records)
        return folder


def make_history(seed: int, batches: int = 12, rows: int = 40) -> History:
    """Updates of few keys over three days: out of order, with deletions, repeats and rows that were refused."""
    random = Random(seed)
    records: list[Record] = [TableDefined(QUOTES), TableDefined(ROOMS)]
    said: list[Update] = []
    for nth in range(batches):
        table = random.choice([QUOTES, ROOMS])
        fresh = [_update(random, table, nth * rows + k) for k in range(random.randint(1, rows))]
        repeats = random.sample(own, min(len(own), 3)) if (own := [u for u in said if u.table == table.name]) else []
        said += fresh
        mixed = [*fresh, *repeats]
        random.shuffle(mixed)
        records.append(Updates(table.name, to_batch(table, mixed)))
        if random.random() < 0.4:
            records.append(Quarantined(table.name, _refused(nth, random.randint(1, 3))))
    return History(tuple(records))


def _update(random: Random, table: TableSchema, sequence: int) -> Update:
    time = Instant(1_700_000_000_000_000 + random.randint(0, 2 * DAY) // 1_000_000 * 1_000_000)
    operation = Operation.DELETE if random.random() < 0.2 else Operation.UPSERT
    gone = operation is Operation.DELETE
    value = None if gone or random.random() < 0.1 else round(random.uniform(-50, 50), 3)
    row: tuple[bool | int | float | str | None, ...]
    if table is QUOTES:
        row = (f"S{random.randint(0, 12)}", value)
    else:
        key = (random.randint(-2, 2), random.choice(["a", "ä", "z/"]))
        row = (*key, value, None if gone else random.random() < 0.5, None if gone else time)
    return Update(table.name, row, time, Origin(random.choice(["s1", "s2", "é"]), sequence), operation)


def _refused(nth: int, count: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays(
        [
            pa.array([f'{{"n": {nth}.{k}}}' for k in range(count)]),
            pa.array(["wrong-type"] * count),
            pa.array(["expected a DOUBLE"] * count),
            pa.array([f"file, row {k}" for k in range(count)]),
            pa.array([1_700_000_000_000_000 + nth * DAY // 3] * count, pa.int64()).cast(INSTANT),
            pa.array(["s1"] * count),
            pa.array([nth * 10 + k for k in range(count)], pa.int64()),
        ],
        schema=QUARANTINE,
    )


def latest_rows(now: TableSnapshot, table: TableSchema) -> set[Row]:
    """The latest rows of a table as the oracle gives them."""
    rows = now.latest(table.name)
    assert rows.num_rows == len(rows.group_by(list(table.key)).aggregate([])), "a key stands there once"
    columns = [_plain(rows.column(column.name)) for column in table.columns]
    return set(zip(*columns, strict=True))


def history_rows(now: TableSnapshot, table: TableSchema) -> list[Update]:
    """Every stored update, in the order of positions."""
    rows = now.history(table.name).to_table().sort_by("$position")
    return [update for batch in rows.drop_columns(["$position"]).to_batches() for update in from_batch(table, batch)]


def _plain(column: pa.ChunkedArray) -> list[object]:
    values: list[object] = (column.cast(pa.int64()) if column.type == INSTANT else column).to_pylist()
    return values


def check(now: TableSnapshot, history: History) -> None:
    """Everything that is kept is what should be, and nothing else."""
    defined = [record.schema for record in history.records if isinstance(record, TableDefined)]
    assert {table.name for table in now.tables} == {table.name for table in defined}
    for table in defined:
        assert latest_rows(now, table) == history.latest(table)
        assert history_rows(now, table) == history.updates(table)
    assert sorted(now.quarantine().to_table().column("row").to_pylist()) == history.refused()


@dataclass(frozen=True)
class World:
    """What the tests of this room share."""

    quotes: TableSchema = QUOTES
    rooms: TableSchema = ROOMS

    history = staticmethod(make_history)
    check = staticmethod(check)
    latest_rows = staticmethod(latest_rows)
    history_rows = staticmethod(history_rows)


@pytest.fixture(scope="session")
def world() -> World:
    return World()
