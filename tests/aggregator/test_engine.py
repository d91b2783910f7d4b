"""The engine of an aggregator: bounds less their floors, suspended from the beginning, right after other restarts."""

from typing import Any

import pytest

from slackwater.aggregator.base import Item
from slackwater.aggregator.engine import AggregatorEngine
from slackwater.aggregator.mirrored_items import MirroredItems
from slackwater.core import Column, DataType, Instant, Origin, Position, TableSchema, Update
from slackwater.core.arrow import to_batch
from slackwater.core.errors import SlackwaterError
from slackwater.log import Entry, Record, Registered, TableDefined, Unregistered, Updates
from slackwater.sessions.events import Applied, QueriesPresent, QueriesResumed, QueriesSuspended, QueryRegistered

TABLE = TableSchema(
    "t", (Column("k", DataType.TEXT, nullable=False), Column("v", DataType.DOUBLE, nullable=False)), key=("k",)
)
SUM = "SUBSCRIBE SELECT SUM(v) FROM t WHERE k IN ('a', 'b') WITHIN 3"


class Bench:
    def __init__(self, within: float = 1.0, end: int = 0) -> None:
        self.doubts: dict[str, str | None] = {"x": "lost"}
        held = MirroredItems([Item("x", "t", "v", (key,), within) for key in "ab"])
        self.engine = AggregatorEngine(held, lambda feed: self.doubts[feed])
        self.end = end

    def append(self, *records: Record) -> list[Any]:
        entries = []
        for record in records:
            entries.append(Entry(Position(self.end), record))
            self.end = entries[-1].end
        return [event for events in self.engine.events(entries) for event in events]

    def update(self, number: int, **values: float) -> list[Any]:
        rows = [
            Update("t", (key, value), Instant(number), Origin("x", number * 10 + place))
            for place, (key, value) in enumerate(values.items())
        ]
        return self.append(Updates("t", to_batch(TABLE, rows)))


@pytest.fixture
def bench() -> Bench:
    made = Bench()
    made.append(TableDefined(TABLE))
    made.update(1, a=1.0, b=2.0)
    return made


def test_a_query_is_kept_within_what_is_left_and_known_by_its_own_bound(bench: Bench) -> None:
    registered, suspended, applied = bench.append(Registered("t", SUM, "p"))
    assert isinstance(registered, QueryRegistered)
    assert registered.query.bound.within == 3.0
    assert suspended == QueriesSuspended((registered.number,), "lost")
    assert isinstance(applied, Applied), "it is told last, when nobody was told anything of the query yet"
    assert bench.engine.host.query(registered.number).bound.within == 1.0


def test_doubt_is_told_when_it_changes(bench: Bench) -> None:
    bench.append(Registered("t", SUM, "p"))
    (number,) = bench.engine.registrations
    assert bench.engine.reviewed() == []
    bench.doubts["x"] = None
    assert bench.engine.reviewed() == [QueriesResumed((number,))]
    assert bench.engine.reviewed() == []
    bench.doubts["x"] = "lost again"
    assert bench.engine.reviewed() == [QueriesSuspended((number,), "lost again")]
    bench.append(Unregistered("t", number))
    bench.doubts["x"] = None
    assert bench.engine.reviewed() == []


def test_a_start_tells_all_that_is_suspended(bench: Bench) -> None:
    bench.append(Registered("t", SUM, "p"))
    (number,) = bench.engine.registrations
    again = Bench()
    again.engine.restore(bench.engine.snapshot())
    present, suspended = again.engine.registered()
    assert isinstance(present, QueriesPresent)
    assert [one.number for one in present.registrations] == [number]
    assert suspended == QueriesSuspended((number,), "lost")


def test_what_cannot_be_promised_is_refused_and_not_kept(bench: Bench) -> None:
    tight = SUM.replace("WITHIN 3", "WITHIN 1.5")
    with pytest.raises(SlackwaterError, match=r"WITHIN 2$"):
        bench.engine.bind(tight)
    bench.append(Registered("t", tight, "p"))
    assert not bench.engine.registrations


@pytest.mark.parametrize(("within", "left"), [(0.5, 2.0), (1.5, 0.0), (2.0, None)])
def test_a_snapshot_from_when_other_bounds_were_held(bench: Bench, within: float, left: float | None) -> None:
    bench.append(Registered("t", SUM, "p"))
    (number,) = bench.engine.registrations
    again = Bench(within)
    again.engine.restore(bench.engine.snapshot())
    if left is None:
        assert not again.engine.registrations
        assert number not in again.engine.host.queries
    else:
        assert again.engine.host.query(number).bound.within == left


def test_what_is_in_the_log_is_found_again(bench: Bench) -> None:
    assert bench.engine.keys("t") == [("a",), ("b",)]
    assert bench.engine.last_of("t", "x") == (1, 11)
    assert bench.engine.last_of("t", "y") == (1, -1)
    assert bench.engine.last_of("u", "x") == (0, -1)
    assert bench.engine.keys("u") == []
