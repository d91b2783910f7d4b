"""Moments of admission: they rise in the log whatever the wall clock does, and no event time moves them."""

from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slackwater.core import Column, DataType, Instant, ManualClock, Operation, Origin, TableSchema, Update
from slackwater.core.arrival import Arrival
from slackwater.core.arrow import INSTANT, QUARANTINE, to_batch
from slackwater.intake import MEMORY_FILE, Intake
from slackwater.log import LocalLog, Log, MemoryLog, MemoryStore, Quarantined, TableDefined, TimePassed, Updates
from slackwater.processing.latest import LatestTable

_COLUMNS = (Column("k", DataType.TEXT, nullable=False), Column("v", DataType.BIGINT))
PLAIN = TableSchema("plain", _COLUMNS, key=("k",))
DATED = TableSchema("dated", (*_COLUMNS, Column("at", DataType.TIMESTAMP)), key=("k",), event_time="at")
NOW = 1_700_000_000_000_000
HOUR = 3_600_000_000


def rows(
    value: int, *, table: str = "plain", source: str = "s", at: int | None = None, delete: bool = False
) -> Arrival:
    columns: dict[str, pa.Array] = {"k": pa.array(["a"]), "v": pa.array([value])}
    if at is not None:
        columns["at" if table == "dated" else "$time"] = pa.array([at], pa.int64()).cast(INSTANT)
    if delete:
        columns["$op"] = pa.array([int(Operation.DELETE)], pa.int8())
    return Arrival(table, source, pa.RecordBatch.from_pydict(columns), "test")


def opened(log: Log, wall: int, memory: Path | None = None) -> Intake:
    intake = Intake(log, ManualClock(Instant(wall)), memory=memory)
    for table in (PLAIN, DATED):
        intake.define(table)
    return intake


def stamps(log: Log) -> list[int]:
    return [
        entry.record.admitted
        for entry in log.read(log.start)
        if isinstance(entry.record, Updates | Quarantined) and entry.record.admitted is not None
    ]


def times(log: Log) -> list[int]:
    found: list[int] = []
    for entry in log.read(log.start):
        if isinstance(entry.record, Updates):
            found += entry.record.batch.column("$time").cast(pa.int64()).to_pylist()
    return found


def latest(log: Log, table: TableSchema = PLAIN) -> list[tuple[str, int]]:
    state = LatestTable(table)
    for entry in log.read(log.start):
        if isinstance(entry.record, Updates) and entry.record.table == table.name:
            state.fold(entry.record.batch)
    return list(zip(state.rows.column("k").to_pylist(), state.rows.column("v").to_pylist(), strict=True))


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(st.integers(-10 * HOUR, 10 * HOUR), st.booleans(), st.sampled_from("ab")), max_size=12))
def test_the_last_arrival_wins_whatever_the_wall_clock_does(
    tmp_path_factory: pytest.TempPathFactory, history: list[tuple[int, bool, str]]
) -> None:
    memory = tmp_path_factory.mktemp("memory") / MEMORY_FILE
    store = MemoryStore()
    for value, (wall, saved, source) in enumerate(history):
        with MemoryLog(store) as log:
            intake = opened(log, NOW + wall, memory)
            assert intake.take([rows(value, source=source), rows(value, source="b")]).accepted == 2
            assert latest(log) == [("a", value)]
            if saved:
                intake.save()
    if history:
        with MemoryLog(store) as log:
            assert stamps(log) == sorted(set(stamps(log))) == times(log)


def test_a_deletion_without_a_time_is_dated_by_the_log_clock() -> None:
    store = MemoryStore()
    with MemoryLog(store) as log:
        opened(log, NOW).take([rows(1, table="dated", at=NOW - 10)])
    with MemoryLog(store) as log:
        opened(log, NOW - HOUR).take([rows(1, table="dated", delete=True)])
        assert latest(log, DATED) == []


@pytest.mark.parametrize("table", ["dated", "plain"])
def test_no_event_time_moves_it(table: str) -> None:
    store = MemoryStore()
    with MemoryLog(store) as log:
        intake = opened(log, NOW)
        assert intake.take([rows(1, table=table, at=NOW + 20 * HOUR)]).accepted == 1
        assert intake.now() == NOW
        intake.take([rows(2)])
    with MemoryLog(store) as log:
        intake = opened(log, NOW - HOUR)
        intake.take([rows(3)])
        assert stamps(log) == [NOW, NOW + 1, NOW + 2]
        refused = intake.take([rows(4, table=table, at=NOW + 25 * HOUR)])
        assert (refused.accepted, refused.quarantined) == (0, 1)
        assert intake.take([rows(4, table=table, at=NOW + 24 * HOUR)]).accepted == 1, "from the log clock"


def test_it_is_kept_where_retention_dropped_the_rows(tmp_path: Path) -> None:
    with LocalLog(tmp_path) as log:
        intake = opened(log, NOW, tmp_path / MEMORY_FILE)
        intake.take([rows(1)])
        intake.drop_before(log.end)
        assert log.start == log.end
    with LocalLog(tmp_path) as log:
        opened(log, NOW - HOUR, tmp_path / MEMORY_FILE).take([rows(2)])
        assert times(log) == [NOW + 1]


def test_it_is_not_before_a_tick_of_the_log() -> None:
    store = MemoryStore()
    with MemoryLog(store) as log:
        opened(log, NOW)
        log.append([TimePassed(Instant(NOW + HOUR))])
    with MemoryLog(store) as log:
        opened(log, NOW).take([rows(1)])
        assert times(log) == [NOW + HOUR]


def test_a_log_of_before_has_no_stamps() -> None:
    """The clock begins not before the refusals and ticks, and not before former times up to the wall clock's."""

    def update(table: TableSchema, at: int) -> Updates:
        row = ("a", 1) if table is PLAIN else ("a", 1, Instant(at))
        return Updates(table.name, to_batch(table, [Update(table.name, row, Instant(at), Origin("s", -5))]))

    refusal = {"row": "{}", "reason": "missing-key", "detail": "", "place": "", "at": NOW + 2 * HOUR, "$source": "s"}
    arrays = [pa.array([refusal.get(field.name)]).cast(field.type) for field in QUARANTINE]
    refused = Quarantined("plain", pa.RecordBatch.from_arrays(arrays, schema=QUARANTINE))
    tables = [TableDefined(PLAIN), TableDefined(DATED)]
    for before, clock in (
        (update(PLAIN, NOW - HOUR), NOW),
        (update(PLAIN, NOW), NOW + 1),
        (update(PLAIN, NOW + 23 * HOUR), NOW + 1),
        (refused, NOW + 2 * HOUR + 1),
        (update(DATED, NOW + HOUR), NOW),
    ):
        log = MemoryLog()
        log.append([*tables, before])
        opened(log, NOW).take([rows(2)])
        assert stamps(log) == [clock]


def test_a_row_of_before_that_is_ahead_wins_until_its_time() -> None:
    """Its sender may have dated it. It does not pull the log clock along, nor the limit of times ahead."""
    store, clock = MemoryStore(), ManualClock(Instant(NOW))
    with MemoryLog(store) as log:
        former = Update("plain", ("a", 1), Instant(NOW + 23 * HOUR), Origin("s", -5))
        log.append([TableDefined(PLAIN), Updates("plain", to_batch(PLAIN, [former]))])
    with MemoryLog(store) as log:
        intake = Intake(log, clock)
        intake.take([rows(2)])
        assert latest(log) == [("a", 1)]
        assert intake.take([rows(3, at=NOW + 25 * HOUR)]).quarantined == 1
        clock.sleep(23 * 3600 + 1)
        intake.take([rows(4)])
        assert latest(log) == [("a", 4)]


def test_rows_within_an_arrival_are_ordered_as_they_stand() -> None:
    log = MemoryLog()
    columns = {"k": pa.array(["a"] * 3), "v": pa.array([5, 7, 6])}
    opened(log, NOW).take([Arrival("plain", "s", pa.RecordBatch.from_pydict(columns), "test")])
    assert latest(log) == [("a", 6)]
    [batch] = [entry.record.batch for entry in log.read(log.start) if isinstance(entry.record, Updates)]
    assert pc.max(batch.column("$seq")).as_py() < -(2**62)
