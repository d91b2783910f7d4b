"""Many changes, one append: each sees those before it, and none is done before all are durable."""

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from slackwater.core import Column, DataType, TableSchema
from slackwater.core.arrival import Arrival, RequestKey
from slackwater.core.clock import ManualClock
from slackwater.core.errors import LogError, SchemaError
from slackwater.core.types import Instant, Position
from slackwater.hosting.log_clock import LogClock
from slackwater.intake import Intake, IntakeReceipt, RowsRequest
from slackwater.log import Entry, Log, Record, TableDefined, TableDropped, TimePassed
from slackwater.log.memory import MemoryLog
from slackwater.server.group_commit import Busy, RowsChange, Target, WriteQueue
from slackwater.server.uncommitted_log import UncommittedLog


def table(name: str) -> TableSchema:
    return TableSchema(name, (Column("k", DataType.TEXT, nullable=False),), ("k",))


class Counting(MemoryLog):
    """A log that counts its appends, and can refuse them, or fail once they are durable."""

    appends = 0
    broken = False
    fails_late = False

    def append(self, records: Sequence[Record]) -> Position:
        if self.broken:
            raise LogError("the disk is full")
        self.appends += 1
        end = super().append(records)
        if self.fails_late:
            raise LogError("it is not known what was kept")
        return end


def test_what_is_gathered_is_seen_before_it_is_written() -> None:
    with Counting() as log:
        gathering = UncommittedLog(log)
        gathering.append([TableDefined(table("a"))])
        gathering.append([TableDefined(table("b")), TableDropped("a")])
        assert (gathering.end, log.end) == (3, 0)
        assert [one.name for one in gathering.catalog()] == ["b"]
        assert [entry.first for entry in gathering.read(Position(1))] == [1, 2]
        with pytest.raises(SchemaError):
            gathering.append([TableDropped("a")])
        assert gathering.flush() == log.end == 3
        assert log.appends == 1
        assert [entry.first for entry in gathering.read(Position(0))] == [0, 1, 2]


def test_after_a_failure_nothing_is_left_of_it() -> None:
    with Counting() as log:
        gathering = UncommittedLog(log)
        gathering.append([TableDefined(table("a"))])
        log.broken = True
        with pytest.raises(LogError):
            gathering.flush()
        gathering.forget()
        assert gathering.end == 0
        assert len(gathering.catalog()) == 0


def make(name: str) -> Callable[[Target], Position]:
    def change(target: Target) -> Position:
        return target.log.append([TableDefined(table(name))])

    return change


async def test_changes_at_once_share_an_append_and_each_has_its_own_outcome() -> None:
    with Counting() as log:
        queue = WriteQueue(log, ManualClock(), None, 1000, lambda: None)
        waiting = [asyncio.create_task(queue.submit(make(name))) for name in ("a", "b", "A", "c")]
        await asyncio.sleep(0)
        writing = asyncio.create_task(queue.run())
        outcomes = await asyncio.gather(*waiting, return_exceptions=True)
        assert [one for one in outcomes if isinstance(one, int)] == [1, 2, 3]
        assert isinstance(outcomes[2], SchemaError)
        assert log.appends == 1
        log.broken = True
        with pytest.raises(LogError, match="full"):
            await queue.submit(make("d"))
        log.broken = False
        assert await queue.submit(make("d")) == 4
        await queue.close()
        await writing
        with pytest.raises(Busy):
            await queue.submit(make("e"))
        queue.finish()


async def test_more_than_may_wait_is_refused_at_once() -> None:
    with Counting() as log:
        queue = WriteQueue(log, ManualClock(), None, 10, lambda: None)
        first = asyncio.create_task(queue.submit(make("a"), rows=8))
        await asyncio.sleep(0)
        with pytest.raises(Busy, match="8 rows"):
            await queue.submit(make("b"), rows=8)
        writing = asyncio.create_task(queue.run())
        assert await first == 1
        await queue.close()
        await writing
        queue.finish()


def test_the_memory_is_written_when_the_queue_opens(tmp_path: Path) -> None:
    """Far behind the log, the intake would do so by itself, in the middle of a group that is not durable yet."""
    memory = tmp_path / "memory"
    with Counting() as log:
        log.append([TableDefined(table("a"))])
        queue = WriteQueue(log, ManualClock(), memory, 1000, lambda: None)
        assert memory.exists()
        queue.finish()


def records(log: Log) -> list[int | str]:
    """The times of ticks and the names of tables."""
    found: list[int | str] = []
    for entry in log.read(log.start):
        match entry.record:
            case TimePassed(time):
                found.append(int(time))
            case TableDefined(schema):
                found.append(schema.name)
    return found


async def test_a_tick_stands_before_the_group_and_comes_by_itself_where_there_is_none() -> None:
    clock, ticked = ManualClock(Instant(1_500_000)), asyncio.Event()
    with Counting() as log:
        queue = WriteQueue(log, clock, None, 1000, ticked.set, LogClock(Instant(1_000_000)))
        writing = asyncio.create_task(queue.run())
        await queue.submit(make("a"))
        assert records(log) == ["a"]
        queue.keep_time(frozenset({1_000_000}))
        await queue.submit(make("b"))
        assert records(log) == ["a", "b"]
        clock.sleep(3.7)
        await asyncio.gather(*(queue.submit(make(name)) for name in ("c", "d")))
        assert records(log) == ["a", "b", 5_000_000, "c", "d"]
        assert log.appends == 3
        clock.sleep(1)
        ticked.clear()
        # Only to have the clock looked at now, and not within the second in which it is read again.
        queue.keep_time(frozenset({500_000}))
        await ticked.wait()
        assert records(log)[-2:] == ["d", 6_000_000]
        await queue.close()
        await writing
        queue.finish()


async def test_time_stands_still_while_the_wall_is_behind_the_log() -> None:
    clock = ManualClock(Instant(2_000_000))
    with Counting() as log:
        queue = WriteQueue(log, clock, None, 1000, lambda: None, LogClock(Instant(5_000_000)))
        queue.keep_time(frozenset({1_000_000}))
        writing = asyncio.create_task(queue.run())
        for name in ("a", "b", "c"):
            await queue.submit(make(name))
            clock.sleep(1.5)
        assert records(log) == ["a", "b", "c"]
        await queue.submit(make("d"))
        assert records(log)[3:] == [6_000_000, "d"]
        await queue.close()
        await writing
        queue.finish()


async def test_a_tick_that_could_not_be_written_comes_with_the_next_group() -> None:
    clock = ManualClock(Instant(1_500_000))
    with Counting() as log:
        queue = WriteQueue(log, clock, None, 1000, lambda: None)
        log.broken = True
        queue.keep_time(frozenset({1_000_000}))
        writing = asyncio.create_task(queue.run())
        with pytest.raises(LogError, match="full"):
            await queue.submit(make("a"))
        log.broken = False
        await queue.submit(make("a"))
        assert records(log) == [1_000_000, "a"]
        await queue.close()
        await writing
        queue.finish()


async def test_a_tick_that_was_kept_by_a_failed_append_is_not_appended_again() -> None:
    clock = ManualClock(Instant(1_500_000))
    with Counting() as log:
        queue = WriteQueue(log, clock, None, 1000, lambda: None)
        log.fails_late = True
        queue.keep_time(frozenset({1_000_000}))
        writing = asyncio.create_task(queue.run())
        with pytest.raises(LogError, match="kept"):
            await queue.submit(make("a"))
        log.fails_late = False
        await queue.submit(make("b"))
        assert records(log) == [1_000_000, "a", "b"]
        clock.sleep(1)
        await queue.submit(make("c"))
        assert records(log)[3:] == [2_000_000, "c"]
        await queue.close()
        await writing
        queue.finish()


async def test_requests_that_wait_are_admitted_as_one_and_one_fault_is_its_senders_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def request(source: str, key: object) -> RowsChange:
        columns = {"k": pa.array([key], pa.string()), "$seq": pa.array([1], pa.int64())}
        return RowsChange(RowsRequest([Arrival("a", source, pa.RecordBatch.from_pydict(columns), "test")]))

    real = Intake.take

    def take(intake: Intake, arrivals: Sequence[Arrival], key: RequestKey | None = None) -> IntakeReceipt:
        if any(arrival.source == "broken" for arrival in arrivals):
            raise ZeroDivisionError
        return real(intake, arrivals, key)

    monkeypatch.setattr(Intake, "take", take)
    with Counting() as log:
        queue = WriteQueue(log, ManualClock(), None, 1000, lambda: None)
        handed: list[Entry] = []
        queue.committed = handed.extend
        writing = asyncio.create_task(queue.run())
        await queue.submit(make("a"))
        sent = [queue.submit(request(f"s{nth}", "x")) for nth in range(9)]
        receipts = await asyncio.gather(*sent)
        assert [one.accepted for one in receipts] == [1] * 9
        assert [one.position for one in receipts] == list(range(2, 11))
        batches = [entry.rows for entry in log.read(Position(1))]
        assert (log.appends, sum(batches)) == (2 + (len(batches) > 1), 9)
        assert len(batches) <= 2
        mixed: list[Callable[[Target], Any]] = [request("t1", "x"), request("t2", None), request("s1", "x")]
        mixed += [request("broken", None), make("b")]
        outcomes: list[Any] = await asyncio.gather(*(queue.submit(one) for one in mixed), return_exceptions=True)
        three = [(one.accepted, one.quarantined, one.repeats) for one in outcomes[:3]]
        assert three == [(1, 0, 0), (0, 1, 0), (0, 0, 1)]
        assert isinstance(outcomes[3], ZeroDivisionError)
        assert outcomes[4] == log.end
        assert [entry.first for entry in handed] == [entry.first for entry in log.read(Position(0))]
        await queue.close()
        await writing
        queue.finish()
