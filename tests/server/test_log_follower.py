"""The log follower of a node over logs that are replaced at the worst moment."""

import asyncio
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest

from simulation.workload import TABLE
from slackwater.admission import Limits, Seen, admit_run
from slackwater.core import Column, DataType, Instant, TableSchema
from slackwater.core.arrival import Arrival
from slackwater.core.errors import HistoryReplaced
from slackwater.core.lineage import Lineage
from slackwater.core.types import Position
from slackwater.log import Entry, LocalLog, MemoryLog, MemoryStore, Record, TableDefined, Updates
from slackwater.server import log_follower
from slackwater.server.log_follower import LogFollower
from slackwater.sessions.engine import NodeEngine
from slackwater.sources.typed_json import TypedJsonReader
from tests.support.state_bench import Bench


def written(lineage: Lineage, rows: int, price: float) -> MemoryLog:
    """A log with the table and so many rows, of a history."""
    store = MemoryStore()
    log = MemoryLog(store)
    bench = Bench()
    records: list[Record] = [TableDefined(TABLE), *(bench.updates((key, price)) for key in range(rows))]
    log.append(records)
    store.lineage = lineage
    return log


class Swapped:
    """A log that another one replaces after so many looks at its end, entries or incarnations."""

    def __init__(self, before: MemoryLog, after: MemoryLog, looks: int) -> None:
        self._logs = (before, after)
        self._looks = looks

    def __getattr__(self, name: str) -> Any:
        self._looks -= 1
        return getattr(self._logs[self._looks < 0], name)


def follower(log: Any, position: int, lineage: Lineage) -> LogFollower:
    engine = NodeEngine()
    engine.lineage = lineage
    made = LogFollower(log, "the log", engine, {}, 1_000_000, writable=False, afar=False)
    first = written(lineage, 20, 1.0)
    for _ in engine.events(first.read(Position(0), Position(position))):
        pass
    return made


@pytest.mark.parametrize("rows", [10, 15, 30])
@pytest.mark.parametrize("looks", range(8))
async def test_rows_of_one_history_are_never_applied_in_another(rows: int, looks: int) -> None:
    seven = Lineage().begin(7, Position(0))
    nine = seven.begin(9, Position(11))
    before, after = written(seven, 20, 1.0), written(nine, max(rows, 10), 2.0)
    made = follower(Swapped(before, after, looks), 9, seven)
    applied: list[tuple[int, int]] = []
    made.told = lambda events: applied.append((int(made._engine.position), made._engine.lineage.current))
    running = asyncio.create_task(made.run())
    await until(lambda: running.done() or made._engine.position == after.end)
    running.cancel()
    (ended,) = await asyncio.gather(running, return_exceptions=True)
    if isinstance(ended, HistoryReplaced):
        assert all(number == 7 for _, number in applied), "it ended before it applied anything of the other"
        return
    assert isinstance(ended, asyncio.CancelledError), ended
    # Positions up to 11 are of both histories; what came after is of the second.
    assert all(number == 9 for position, number in applied if position > 11)
    latest = made._engine.host.latest("items").rows.to_pylist()
    assert {row["price"] for row in latest if row["id"] >= 10} <= {2.0}


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not condition():
            await asyncio.sleep(0.005)


async def test_what_is_handed_over_is_applied_and_what_is_not_is_read() -> None:
    """Groups that were not handed over, or only in part, leave a gap: the log fills it."""
    for seed in range(30):
        random = Random(seed)
        log = MemoryLog()
        bench = Bench()
        log.append([TableDefined(TABLE)])
        reads: list[int] = []
        made = LogFollower(Reads(log, reads), "the log", NodeEngine(), {}, 1_000_000, writable=True, afar=False)
        running = asyncio.create_task(made.run())
        await until(partial(has_applied, made, 1))
        reads.clear()
        handed = 0
        for key in range(30):
            updates = bench.updates((key % 7, float(key)), (key, 1.0))
            first = log.end
            log.append([updates])
            if random.random() < 0.8:
                made.hand([Entry(first, updates)])
                handed += 1
            if random.random() < 0.5:
                made.more.set()
                await asyncio.sleep(0)
        made.more.set()
        await until(partial(has_applied, made, log.end))
        running.cancel()
        replayed = NodeEngine()
        for _ in replayed.events(log.read(Position(0))):
            pass
        rows = [engine.host.latest("items").rows.to_pylist() for engine in (made._engine, replayed)]
        assert sorted(map(str, rows[0])) == sorted(map(str, rows[1]))
        assert (len(reads) == 0) == (handed == 30)


def test_no_more_waits_in_memory_than_may(monkeypatch: pytest.MonkeyPatch) -> None:
    """An engine that falls behind reads the log: what is durable there is not kept here besides."""
    monkeypatch.setattr(log_follower, "MOST_HANDED", 10)
    bench = Bench()
    for afar in (False, True):
        made = LogFollower(MemoryLog(), "the log", NodeEngine(), {}, 1_000_000, writable=True, afar=afar)
        held = []
        for key in range(50):
            made.hand([Entry(Position(key), bench.updates((key, 1.0)))])
            held.append(sum(entry.end - entry.first for entry in made._handed))
        assert max(held) == (0 if afar else 10)


def has_applied(follower: LogFollower, position: int) -> bool:
    return follower._engine.position == position


class Reads:
    """A log that notes where it is read."""

    def __init__(self, log: MemoryLog, reads: list[int]) -> None:
        self._log, self._reads = log, reads

    def __getattr__(self, name: str) -> Any:
        return getattr(self._log, name)

    def read(self, start: Position, end: Position | None = None) -> Iterator[Entry]:
        self._reads.append(start)
        return self._log.read(start, end)


def test_a_batch_in_memory_is_applied_as_the_one_that_is_read_back(tmp_path: Path) -> None:
    """To the last bit: a node that was handed its rows and one that replays them have the same snapshot."""
    schema = TableSchema(
        "mixed",
        (
            Column("id", DataType.BIGINT, nullable=False),
            Column("name", DataType.TEXT),
            Column("value", DataType.DOUBLE),
            Column("open", DataType.BOOLEAN),
            Column("at", DataType.TIMESTAMP),
        ),
        ("id",),
    )
    reader, random, seen = TypedJsonReader(schema), Random(1), dict[str, Seen]()
    with LocalLog(tmp_path / "log") as log:
        log.append([TableDefined(schema)])
        handed, read = NodeEngine(), NodeEngine()
        for engine in (handed, read):
            for _ in engine.events(log.read(Position(0))):
                pass
        for nth in range(40):
            arrivals = []
            for source in random.sample("abcd", random.randint(1, 3)):
                cells = [
                    {"id": random.randrange(9), "name": random.choice(["x", None]), "value": random.choice([1, 0.5])}
                    | random.choice([{"open": None, "at": None}, {"open": True, "at": "2026-03-01T12:00:00Z"}])
                    for _ in range(random.randint(1, 3))
                ]
                [batch] = reader.read(b"\n".join(map(msgspec.json.encode, cells)), 100 * nth) or [None]
                assert batch is not None
                arrivals.append(Arrival("mixed", source, batch, "test"))
            stamps = [Instant(2 * 10**15 + 10 * nth + k) for k in range(len(arrivals))]
            run = admit_run(arrivals, stamps, schema, seen, Limits())
            assert run is not None
            seen |= run.seen
            entry = Entry(log.end, Updates("mixed", run.accepted, stamps[-1]))
            log.append([entry.record])
            for engine, entries in ((handed, [entry]), (read, log.read(entry.first))):
                for _ in engine.events(entries):
                    pass
        assert handed.position == read.position == log.end
        assert handed.snapshot() == read.snapshot()
