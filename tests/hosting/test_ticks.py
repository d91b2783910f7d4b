"""Ticks of the log clock in the engine: each ends a step, time never goes back, and cuts make no difference."""

from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slackwater.core import HostKind, Instant, Position
from slackwater.core.errors import NotSupported
from slackwater.extensions import extended
from slackwater.hosting.engine import QueryEngine
from slackwater.kinds.registry import plain_query
from slackwater.log import Record, Registered, TimePassed, Unregistered
from slackwater.log.memory import MemoryLog
from slackwater.processing import state
from slackwater.processing.host import Host
from slackwater.processing.one_table import OneTable
from tests.support.histories import History
from tests.support.spark_workers import Workers, columns, everything, run
from tests.support.ticks import TickCounts, Ticks

MODULE = "tests.support.ticks"


@pytest.fixture(autouse=True, scope="module")
def with_ticks() -> Iterator[None]:
    with extended(MODULE):
        yield


class TickingHistory(History):
    """One in which much time passes, sometimes by less than nothing, and queries count it."""

    def _record(self) -> Record:
        kind = self.random.random()
        if kind < 0.15:
            self.sequence += 1
            return TimePassed(Instant(self.sequence - self.random.choice([0, 0, 0, 30])))
        if kind < 0.25:
            query = Ticks(self.random.choice(sorted(self.tables)), 1_000 * self.random.randint(1, 3))
            return Registered(query.table, "", "ann", query=plain_query(query), host=self.host.value)
        return super()._record()


def written(seed: int, count: int = 60) -> MemoryLog:
    history, log = TickingHistory(seed, HostKind.NODE), MemoryLog()
    log.append(history.beginning() + history.more(count))
    return log


def counts(engine: QueryEngine) -> TickCounts:
    [found] = [one.inner for one in engine.host.operators if isinstance(one, OneTable) and one.name == "TickCounts"]
    assert isinstance(found, TickCounts)
    return found


def rising(log: MemoryLog) -> list[tuple[int, int]]:
    """The ticks that are later than all before them, with their positions."""
    made, last = [], 0
    for entry in log.read(log.start):
        if isinstance(entry.record, TimePassed) and entry.record.time > last:
            last = int(entry.record.time)
            made.append((last, int(entry.end)))
    return made


@settings(deadline=None)
@given(st.integers(0, 10_000), st.lists(st.integers(0, 400), max_size=6))
def test_however_the_log_is_cut_operators_are_told_the_same_times(seed: int, cuts: list[int]) -> None:
    log, engine, ends = written(seed), QueryEngine(everything), set()
    points = [*sorted({cut for cut in cuts if cut < log.end}), int(log.end)]
    for cut in points:
        ends |= {int(step.position) for step in engine.steps(log.read(engine.position, Position(cut)))}
    assert counts(engine).calls == rising(log)
    ticks = [entry for entry in log.read(log.start) if isinstance(entry.record, TimePassed)]
    # A step ends at each tick, and the one before it ends where the tick begins.
    assert {int(tick.end) for tick in ticks} <= ends
    assert {int(tick.first) for tick in ticks} <= ends
    assert engine.host.time == max([time for time, _ in rising(log)], default=0)


@pytest.mark.parametrize("seed", range(10))
def test_a_restart_from_a_snapshot_goes_on_with_the_same_time_and_the_same_bytes(seed: int) -> None:
    log, random = written(seed), Random(seed)
    whole, first = QueryEngine(everything), QueryEngine(everything)
    middle = Position(random.randrange(1, int(log.end)))
    [*_] = whole.steps(log.read(Position(0), middle))
    [*_] = first.steps(log.read(Position(0), middle))
    again = QueryEngine(everything)
    again.restore(first.snapshot())
    assert again.host.time == whole.host.time
    assert again.tick_periods == whole.tick_periods
    said = [[columns(step) for step in one.steps(log.read(middle))] for one in (whole, again)]
    assert said[0] == said[1]
    assert again.snapshot() == whole.snapshot()


def test_a_snapshot_of_before_the_log_clock_opens_at_no_time() -> None:
    host = Host()
    host.advance(Instant(5), Position(1))
    parts = state.unpack("host", host.snapshot())
    assert parts.pop("time") == 5
    host.restore(state.pack("host", parts))
    assert (host.time, host.position) == (0, 1)


def test_an_operator_that_is_rebuilt_is_told_the_time_first() -> None:
    log = written(3)
    engine = QueryEngine(everything)
    [*_] = engine.steps(log.read(Position(0)))
    parts = state.unpack("host", engine.host.snapshot())
    parts["operators"] = [one for one in parts["operators"] if one[0] != "TickCounts"]
    again = QueryEngine(everything)
    again.host.restore(state.pack("host", parts))
    assert again.host.rebuilt["TickCounts"]
    assert counts(again).calls == [(engine.host.time, engine.position)]


def test_periods_are_those_of_the_queries_that_stand_whoever_keeps_them() -> None:
    engine, log = QueryEngine(), MemoryLog()

    def append(*records: Record) -> int:
        end = log.append(records)
        [*_] = engine.steps(log.read(engine.position))
        return int(end) - 1

    append(*TickingHistory(0).beginning())
    assert engine.tick_periods == frozenset()
    here = [
        append(Registered("quotes", "", "ann", query=["ticks", "quotes", 2_000], host=host))
        for host in ("node", "spark")
    ]
    other = append(Registered("quotes", "", "bob", query=["ticks", "quotes", 3_000]))
    assert engine.tick_periods == {2_000, 3_000}
    append(Unregistered("quotes", other), Unregistered("quotes", here[0]))
    assert engine.tick_periods == {2_000}
    append(Registered("quotes", "", "ann", number=here[1], epoch=1, query=["ticks", "quotes", 5_000], host="spark"))
    assert engine.tick_periods == {5_000}
    # A flush to the disk for every microsecond: refused here, and by no host taken in from the log.
    with pytest.raises(NotSupported, match="longer period"):
        engine.check_size(Ticks("quotes", 1))
    append(Registered("quotes", "", "eve", query=["ticks", "quotes", 1]))
    assert engine.tick_periods == {5_000}


@pytest.mark.parametrize("seed", range(8))
def test_a_spark_host_says_the_same_at_ticks(seed: int, tmp_path: Path) -> None:
    run(seed, tmp_path, Workers(seed, deaths=0.15), batches=12, restarts=0.15, history=TickingHistory(seed))
