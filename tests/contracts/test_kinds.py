"""The contract of `slackwater.kinds.base`, point by point, for every kind there is and for one from outside."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from slackwater.core import (
    EVERYTHING,
    Aggregate,
    AggregateFunction,
    Box,
    DataType,
    Interval,
    Join,
    Operation,
    Position,
    Region,
    Scalar,
    Side,
    SlackwaterError,
    StandingQuery,
    TableSchema,
    Update,
    Weight,
)
from slackwater.core.arrow import to_batch
from slackwater.core.query import AnswerShape
from slackwater.core.statement import Subscribe
from slackwater.extensions import extended
from slackwater.kinds.cache.query import CacheQuery, CacheText
from slackwater.kinds.join.schema import called, joined_schema
from slackwater.kinds.registry import KINDS, answer_schema, answer_table, classify, kept_as, kind_of
from slackwater.processing.columns import python_rows
from slackwater.processing.host import Host
from slackwater.sql import Catalog, bind, parse, to_sql
from tests.contracts.median import Median
from tests.support.query_strategies import EVEN, ITEMS, PAIRS, aggregates, batches_of, regions, selections

TABLES = {table.name: table for table in (ITEMS, PAIRS)}
CATALOG = Catalog(tuple(TABLES.values()))
NUMBERS = {"items": ["value", "whole"], "pairs": ["value", "left"]}
"""Columns that can be compared with one another."""

tables = st.sampled_from([ITEMS, PAIRS])


def as_sql_has_it(query: Aggregate) -> Aggregate:
    """SQL has no list without elements, AVG takes no weights, and COUNT neither weights nor a factor."""
    weights, scale = query.weights or None, query.scale
    if query.function in (AggregateFunction.AVG, AggregateFunction.COUNT):
        weights = weights and tuple(Weight(one.key, 1.0) for one in weights)
    if query.function is AggregateFunction.COUNT:
        scale = 1.0
    return replace(query, weights=weights, scale=scale)


@st.composite
def joins(draw: st.DrawFn) -> Join:
    left, right = draw(tables), draw(tables)
    shown = [column.name for column in joined_schema(left, right).columns]
    ends = st.sampled_from(EVEN)
    band = draw(st.none() | st.builds(lambda one, width: Interval(one, one + width), ends, st.sampled_from([0.0, 2.5])))
    return Join(
        left.name,
        right.name,
        draw(st.sampled_from(NUMBERS[left.name])),
        draw(st.sampled_from(NUMBERS[right.name])),
        tuple(draw(st.lists(st.sampled_from(shown), min_size=1, max_size=4, unique=True))),
        band,
        draw(ranges(left)),
        draw(ranges(right)),
    )


@st.composite
def ranges(draw: st.DrawFn, table: TableSchema) -> Region:
    """One box of ranges of numbers: what a join may select by."""
    columns = draw(st.lists(st.sampled_from(NUMBERS[table.name]), max_size=2, unique=True))
    low, width = draw(st.sampled_from([-1, 0, 2])), draw(st.sampled_from([0, 3]))
    return Region((Box.of(*(Side(name, Interval(low, low + width)) for name in columns)),)) if columns else EVERYTHING


@st.composite
def caches(draw: st.DrawFn) -> CacheQuery:
    table = draw(tables)
    client, limit = draw(st.sampled_from(["desk-7", "x"])), draw(st.integers(1, 10**6))
    return CacheQuery(client, limit, table.name, tuple(one.name for one in table.columns), draw(regions(table)))


@st.composite
def medians(draw: st.DrawFn) -> Median:
    table = draw(tables)
    return Median(table.name, draw(st.sampled_from(NUMBERS[table.name])), draw(regions(table)))


QUERIES: Mapping[str, st.SearchStrategy[Any]] = {
    "join": joins(),
    "aggregate": tables.flatmap(aggregates).map(as_sql_has_it),
    "cache": caches(),
    "selection": tables.flatmap(selections),
    "median": medians(),
}
every_kind = pytest.mark.parametrize("kind", QUERIES)
CALM = settings(deadline=None, max_examples=40, suppress_health_check=[HealthCheck.too_slow])


@pytest.fixture(autouse=True, scope="module")
def with_medians() -> Iterator[None]:
    with extended("tests.contracts.median"):
        yield


def text_of(query: StandingQuery) -> str:
    """The text under which a query is registered, where it is no SQL."""
    return str(CacheText(query.client, query.table, query.limit)) if isinstance(query, CacheQuery) else ""


def subscribed(sql: str) -> StandingQuery:
    statement = bind(parse(sql), CATALOG)
    assert isinstance(statement, Subscribe)
    return statement.query


def schema_of(name: str) -> TableSchema:
    return TABLES[name]


def test_every_kind_is_tried() -> None:
    assert set(QUERIES) == {kind.name for kind in KINDS}
    assert len({kind.value for kind in KINDS}) == len(KINDS)


@every_kind
@CALM
@given(data=st.data())
def test_a_query_is_a_value_that_its_kind_knows(kind: str, data: st.DataObject) -> None:
    query = data.draw(QUERIES[kind])
    assert kind_of(query).name == kind
    assert hash(query) == hash(replace(query))
    assert query.table in query.tables
    assert bool(query.columns) == (query.shape is AnswerShape.ROWS)
    assert kind_of(query).bounded or query.bound.within == 0
    with pytest.raises((AttributeError, TypeError)):  # classes with slots refuse by the other one
        query.columns = ("other",)


@every_kind
@CALM
@given(data=st.data())
def test_there_and_back(kind: str, data: st.DataObject) -> None:
    query, other = data.draw(QUERIES[kind]), data.draw(QUERIES[kind])
    found = kind_of(query)
    written = msgspec.msgpack.encode(found.encode(query))
    plain = msgspec.msgpack.decode(written)
    assert plain[0] == found.tag
    assert found.decode(plain, text_of(query)) == query
    assert msgspec.msgpack.encode(found.encode(replace(query))) == written
    if kept_as(query) == kept_as(other):
        assert msgspec.msgpack.encode(found.encode(other)) == written
    else:
        assert msgspec.msgpack.encode(found.encode(other)) != written


@every_kind
@CALM
@given(data=st.data())
def test_what_it_writes_is_told_by_its_shape_and_binds_again(kind: str, data: st.DataObject) -> None:
    query = data.draw(QUERIES[kind])
    sql = to_sql(Subscribe(query), CATALOG)
    assert classify(parse(sql).tree) is kind_of(kept_as(query))
    # The binder writes a region in its own form (a range of all values is none): once it is, nothing changes any more.
    bound = subscribed(sql)
    assert subscribed(to_sql(Subscribe(bound), CATALOG)) == bound
    assert (bound.table, bound.columns, bound.bound) == (query.table, query.columns, query.bound)
    world = World()
    for batch in data.draw(histories()):
        world.apply(batch[0].table, batch)
    assert kind_of(bound).recompute(bound, world.rows()) == kind_of(query).recompute(query, world.rows())
    assert kind_of(query).explain(query).text()
    if text_of(query):
        read = kind_of(query).bind_text(text_of(query), TABLES)
        assert read is not None
        assert kind_of(read[0]) is kind_of(query)
        assert read[1] == text_of(query)


def without_columns(table: TableSchema) -> TableSchema:
    """The table with other names for all columns."""
    columns = tuple(replace(one, name=f"other_{one.name}") for one in table.columns)
    event_time = table.event_time and f"other_{table.event_time}"
    return TableSchema(table.name, columns, tuple(f"other_{name}" for name in table.key), event_time)


def named_columns(query: StandingQuery) -> set[str]:
    """Names of columns that stand in the encoded form of a query."""
    names = {column.name for table in query.tables for column in TABLES[table].columns}
    names |= {f"{by}.{name}" for by in called(query.tables[0], query.tables[-1]) for name in names}
    found: set[str] = set()

    def visit(value: Any) -> None:
        if isinstance(value, list):
            for one in value:
                visit(one)
        elif value in names:
            found.add(value)

    visit(msgspec.msgpack.decode(msgspec.msgpack.encode(kind_of(query).encode(query))))
    return found


@every_kind
@CALM
@given(data=st.data())
def test_what_does_not_fit_the_tables_is_refused(kind: str, data: st.DataObject) -> None:
    query = data.draw(QUERIES[kind])
    kind_of(query).check(query, [TABLES[name] for name in query.tables])
    assume(named_columns(query))
    others = {name: without_columns(TABLES[name]) for name in query.tables}
    with pytest.raises(SlackwaterError, match="column"):
        kind_of(query).check(query, [others[name] for name in query.tables])
    sql = to_sql(Subscribe(query), CATALOG)
    with pytest.raises(SlackwaterError, match=r"line 1"):
        bind(parse(sql), Catalog(tuple(others.values())))


Rows = dict[tuple[Any, ...], Mapping[str, Scalar | None]]


class World:
    """The tables as a dictionary of the latest updates, and a host that has the same."""

    def __init__(self) -> None:
        self.host = Host()
        self.last: dict[str, dict[Any, Update]] = {name: {} for name in TABLES}
        for table in TABLES.values():
            self.host.define(table, self.next(1))

    def next(self, step: int) -> Position:
        return Position(self.host.position + step)

    def apply(self, name: str, updates: Sequence[Update]) -> None:
        for update in updates:
            key = TABLES[name].key_of(update.row)
            if key not in self.last[name] or update.rank >= self.last[name][key].rank:
                self.last[name][key] = update
        self.host.apply(name, to_batch(TABLES[name], updates), self.next(len(updates)))

    def rows(self) -> dict[str, Rows]:
        return {
            name: {
                key: dict(zip((column.name for column in TABLES[name].columns), one.row, strict=True))
                for key, one in last.items()
                if one.operation is Operation.UPSERT
            }
            for name, last in self.last.items()
        }


@st.composite
def histories(draw: st.DrawFn) -> list[list[Update]]:
    return [draw(batches_of(draw(tables), EVEN)) for _ in range(draw(st.integers(1, 6)))]


def answered(host: Host, number: int, query: StandingQuery) -> Any:
    """What the operator answers, in the form of `recompute`."""
    answer = host.answer(number)
    if query.shape is AnswerShape.NUMBER:
        return answer.value
    assert answer.rows is not None
    schema = answer_schema(answer_table(query), schema_of)
    rows = python_rows(answer.rows)
    shown = [schema.index(name) for name in query.columns]
    return {schema.key_of(row): tuple(row[place] for place in shown) for row in rows}


@every_kind
@settings(CALM, max_examples=30)
@given(data=st.data())
def test_operators_answer_what_is_recomputed(kind: str, data: st.DataObject) -> None:
    world, queries = World(), data.draw(st.lists(QUERIES[kind], min_size=1, max_size=3))
    batches = data.draw(histories())
    for number, query in enumerate(queries[:-1]):
        world.host.register(number, kept_as(query), world.next(1))
    for batch in batches:
        world.apply(batch[0].table, batch)
    world.host.register(len(queries) - 1, kept_as(queries[-1]), world.next(1))
    world.apply(batches[0][0].table, batches[0][::-1])
    for number, query in enumerate(queries):
        truth, answer = kind_of(query).recompute(query, world.rows()), answered(world.host, number, query)
        if isinstance(truth, float) and isinstance(answer, float):
            assert abs(answer - truth) <= query.bound.within + 1e-9 * abs(truth)
        else:
            assert answer == truth


@every_kind
@CALM
@given(data=st.data())
def test_conjoined_it_is_the_same_of_the_rows_inside(kind: str, data: st.DataObject) -> None:
    query, world = data.draw(QUERIES[kind]), World()
    for batch in data.draw(histories()):
        world.apply(batch[0].table, batch)
    table = TABLES[data.draw(st.sampled_from(query.tables))]
    region = data.draw(regions(table))
    rows = world.rows()
    inside = {key: row for key, row in rows[table.name].items() if region.contains(row.__getitem__)}
    narrowed = kind_of(query).conjoin(query, table.name, region)
    assert type(narrowed) is type(query)
    expected = kind_of(query).recompute(query, rows | {table.name: inside})
    assert kind_of(query).recompute(narrowed, rows) == expected


def test_types_that_cannot_be_compared_are_refused() -> None:
    texts = {
        "items": replace(ITEMS, columns=tuple(replace(one, type=DataType.BOOLEAN) for one in ITEMS.columns)),
    }
    region = Region((Box.of(Side("value", Interval(0.0, 1.0))),))
    for query in (
        CacheQuery("desk-7", 5, "items", ("item",), region),
        Join("items", "items", "whole", "whole", ("items.item",), Interval(0.0, 1.0)),
        Median("items", "value", region),
    ):
        with pytest.raises(SlackwaterError, match="BOOLEAN"):
            kind_of(query).check(query, [texts[name] for name in query.tables])


def test_a_table_joined_with_itself_is_conjoined_on_both_sides() -> None:
    cells: dict[str, Scalar | None] = {"item": "a", "value": 1.0, "whole": 2, "name": None}
    rows: Rows = {("a",): cells, ("b",): {**cells, "item": "b", "value": 3.0}}
    query = Join("items", "items", "whole", "whole", ("items.item", "items_2.item"))
    inside = Region((Box.of(Side("value", Interval(3.0, None))),))
    narrowed = kind_of(query).conjoin(query, "items", inside)
    assert kind_of(query).recompute(narrowed, {"items": rows}) == {("b", "b"): ("b", "b")}
