"""The host: what it refuses, what it remembers, and the operators that it chooses by itself."""

import numpy as np
import pytest

from slackwater.core import (
    Aggregate,
    AggregateFunction,
    AlgebraError,
    Bound,
    Box,
    Categories,
    Column,
    DataType,
    Instant,
    Interval,
    NotSupported,
    Operation,
    Origin,
    Position,
    Region,
    SchemaError,
    Selection,
    Side,
    StandingQuery,
    StoreError,
    TableSchema,
    Update,
    Weight,
)
from slackwater.core.arrow import to_batch
from slackwater.processing.base import Changes, RowKind
from slackwater.processing.columns import python_rows
from slackwater.processing.host import Host
from slackwater.processing.latest import LatestTable
from tests.support.plain_operators import PlainAggregates, PlainSelections

ROOMS = TableSchema(
    "rooms",
    (
        Column("room", DataType.TEXT, nullable=False),
        Column("celsius", DataType.DOUBLE),
        Column("floor", DataType.BIGINT),
    ),
    key=("room",),
)
SUM, AVG, MIN = AggregateFunction.SUM, AggregateFunction.AVG, AggregateFunction.MIN


def where(column: str, extent: Interval | Categories) -> Region:
    return Region((Box.of(Side(column, extent)),))


def made(*rows: tuple[str, float | None, int | None], time: int, delete: bool = False) -> list[Update]:
    operation = Operation.DELETE if delete else Operation.UPSERT
    return [Update("rooms", row, Instant(time), Origin("s", time), operation) for row in rows]


def host_with(*rows: tuple[str, float | None, int | None]) -> Host:
    host = Host()
    host.define(ROOMS, Position(1))
    if rows:
        host.apply("rooms", to_batch(ROOMS, made(*rows, time=0)), Position(1 + len(rows)))
    return host


def test_a_ramp_is_measured_against_what_was_said() -> None:
    """Deadband 1, steps of 0.5 from 0 to 50: who compares with the last sample never says anything."""
    host = host_with(("a", 0.0, 1))
    host.register(1, Aggregate("rooms", SUM, "celsius", Bound(1.0), weights=(Weight(("a",), 1.0),)), host.position)
    told: list[float] = []
    for step in range(1, 101):
        batch = to_batch(ROOMS, made(("a", step * 0.5, 1), time=step))
        values = host.apply("rooms", batch, Position(host.position + 1)).values
        told += [] if values is None else values.values.tolist()
        assert abs(step * 0.5 - (told[-1] if told else 0.0)) <= 1.0
    assert len(told) == 33


@pytest.mark.parametrize("members", [1, 31, 32, 33, 1024, 1025, 2000])
@pytest.mark.parametrize("function", AggregateFunction)
def test_lists_of_any_length(members: int, function: AggregateFunction) -> None:
    random = np.random.default_rng(members)
    keys = [f"k{n:05d}" for n in range(members)]
    host = host_with(*((key, float(n % 7), n) for n, key in enumerate(keys) if n % 3))
    plain = PlainAggregates()
    weights = tuple(Weight((key,), 0.5) for key in keys)
    query = Aggregate("rooms", function, "celsius", Bound(0.25), weights=weights)
    host.register(1, query, host.position)
    plain.register(1, query, host.latest("rooms"), host.position)
    for step in range(1, 9):
        chosen = random.choice(members, min(members, 5), replace=False)
        rows = [(keys[n], None if random.random() < 0.2 else float(random.integers(-9, 9)), 0) for n in chosen]
        before = host.latest("rooms")
        said = host.apply("rooms", to_batch(ROOMS, made(*rows, time=step)), Position(host.position + 5))
        expected = plain.apply(_everything(before), before, host.position)
        assert (said.values is None) == (expected.values is None)
        if said.values is not None and expected.values is not None:
            assert said.values.there.tolist() == expected.values.there.tolist()
            assert said.values.values.tolist() == pytest.approx(expected.values.values.tolist(), rel=1e-12)


def _everything(latest: LatestTable) -> Changes:
    """Changes that say nothing but that there were some: the plain operator looks at all rows anyway."""
    flags = np.ones(len(latest.rows), np.bool_)
    return Changes("rooms", latest.slots, flags, flags, latest.rows, latest.rows, latest.slots)


def test_a_condition_on_the_key_is_a_list() -> None:
    host = host_with(("a", 1.0, 1), ("b", 2.0, 1))
    region = where("room", Categories(frozenset({"a", "c"})))
    assert host.register(1, Aggregate("rooms", SUM, "celsius", region=region), host.position).value == 1.0
    said = host.apply("rooms", to_batch(ROOMS, made(("c", 5.0, 0), ("b", 9.0, 0), time=1)), Position(9))
    assert said.values is not None
    assert said.values.values.tolist() == [6.0]


def test_rows_of_a_selection_enter_change_and_leave() -> None:
    host = host_with(("a", 19.0, 1), ("b", 25.0, 1))
    warm = Selection("rooms", ("room", "celsius"), where("celsius", Interval(20.0, None)))
    answer = host.register(4, warm, host.position)
    assert answer.rows is not None
    assert python_rows(answer.rows) == [("b", 25.0, 1)]
    told = []
    for step, row in enumerate([("a", 21.0, 1), ("a", 21.0, 2), ("a", 22.0, 2), ("a", 3.0, 2), ("a", 2.0, 2)], start=1):
        said = host.apply("rooms", to_batch(ROOMS, made(row, time=step)), Position(host.position + 1))
        told.append(
            [
                (RowKind(kind).name, row)
                for part in said.rows
                for kind, row in zip(part.kinds, python_rows(part.rows), strict=True)
            ]
        )
    assert told == [
        [("UPSERT", ("a", 21.0, 1))],
        [],  # the floor is not shown
        [("UPSERT", ("a", 22.0, 2))],
        [("DELETE", ("a", 3.0, 2))],
        [],
    ]


def test_a_table_with_queries_cannot_be_dropped_and_begins_anew_afterwards() -> None:
    host = host_with(("a", 1.0, 1), ("b", 2.0, 1))
    for number, region in ((3, where("room", Interval("a", "a"))), (7, where("celsius", Interval(0.0, None)))):
        host.register(number, Aggregate("rooms", SUM, "celsius", region=region), host.position)
    with pytest.raises(SchemaError, match=r"2 standing queries read it \(3, 7\)"):
        host.drop("rooms", host.position)
    host.unregister(3, host.position)
    host.unregister(7, host.position)
    host.unregister(99, host.position)
    host.drop("rooms", host.position)
    assert not host.tables
    host.define(ROOMS, host.position)
    assert host.register(3, Aggregate("rooms", SUM, "celsius"), host.position).value is None
    listed = Aggregate("rooms", SUM, "celsius", weights=(Weight(("b",), 1.0),))
    assert host.register(7, listed, host.position).value is None


REFUSED: list[tuple[StandingQuery, type[Exception], str]] = [
    (Selection("halls", ("room",)), SchemaError, "there is no table 'halls'; the tables are: rooms"),
    (Selection("rooms", ("colour",)), SchemaError, "no column 'colour'"),
    (Selection("rooms", ("room",), where("celsius", Interval("a", None))), AlgebraError, "cannot be compared with 'a'"),
    (Aggregate("rooms", SUM, "room"), SchemaError, "SUM needs numbers and column room is TEXT"),
    (Aggregate("rooms", SUM, "celsius", weights=(Weight((5,), 1.0),)), SchemaError, "a weight is given to"),
    (Aggregate("rooms", SUM, "celsius", weights=(Weight(("a", "b"), 1.0),)), SchemaError, "a weight is given to"),
    (Aggregate("rooms", SUM, "celsius", weights=(Weight(("a",), 1e300),), scale=1e300), AlgebraError, "beyond DOUBLE"),
]


@pytest.mark.parametrize(("query", "error", "message"), REFUSED)
def test_queries_that_do_not_fit_are_refused_and_leave_no_trace(
    query: StandingQuery, error: type[Exception], message: str
) -> None:
    host = host_with(("a", 1.0, 1))
    before = host.snapshot()
    with pytest.raises(error, match=message):
        host.register(1, query, Position(50))
    assert host.snapshot() == before


def test_what_is_not_there_is_refused() -> None:
    host = host_with()
    with pytest.raises(SchemaError, match="no table 'halls'"):
        host.apply("halls", to_batch(ROOMS, []), Position(5))
    with pytest.raises(StoreError, match="no standing query 5"):
        host.answer(5)
    host.advance(Instant(0), Position(10))
    with pytest.raises(StoreError, match="stands at 10, not at 9"):
        host.advance(Instant(0), Position(9))
    only = Host([PlainSelections()])
    only.define(ROOMS, Position(0))
    with pytest.raises(NotSupported, match="no operator keeps"):
        only.register(1, Aggregate("rooms", MIN, "celsius"), Position(0))
    host.register(1, Aggregate("rooms", MIN, "celsius"), host.position)
    with pytest.raises(NotSupported, match="no operator keeps"):
        Host([PlainSelections()]).restore(host.snapshot())


def test_a_restored_host_is_the_same_host() -> None:
    host = host_with(("a", 1.0, 1), ("b", 2.0, None))
    host.register(1, Aggregate("rooms", AVG, "celsius", Bound(0.5)), host.position)
    host.register(2, Selection("rooms", ("room",), where("floor", Categories(frozenset({1})))), host.position)
    other = Host()
    other.restore(host.snapshot())
    assert other.position == host.position
    assert other.queries == host.queries
    assert other.tables == host.tables
    assert other.snapshot() == host.snapshot()
    assert other.answer(1).value == host.answer(1).value == 1.5
