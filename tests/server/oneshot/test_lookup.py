"""A look-up by key gives what the evaluator gives: names, types, rows, order; all else is left to the evaluator."""

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slackwater.core import Column, DataType, Instant, Operation, Origin, Position, TableSchema, Update
from slackwater.core.arrow import to_batch
from slackwater.core.extent import Interval
from slackwater.core.region import Box, Region, Side
from slackwater.core.statement import Select
from slackwater.evaluator import Evaluator
from slackwater.processing.host import Host
from slackwater.server.oneshot.lookup import looked_up
from slackwater.server.oneshot.plans import PlanCache, QueryPlan
from slackwater.sessions.limits import ServerLimits
from slackwater.sql import Catalog, bind, parse

VALUES = (
    Column("hot", DataType.BOOLEAN),
    Column("price", DataType.DOUBLE),
    Column("at", DataType.TIMESTAMP),
    Column("Note", DataType.TEXT),
)
BY_NAME = TableSchema("Names", (Column("name", DataType.TEXT, nullable=False), *VALUES), ("name",))
BY_NUMBER = TableSchema("Numbers", (Column("n", DataType.BIGINT, nullable=False), *VALUES), ("n",))
BY_BOTH = TableSchema(
    "Both",
    (Column("name", DataType.TEXT, nullable=False), Column("n", DataType.BIGINT, nullable=False), *VALUES),
    ("n", "name"),
)
BY_PRICE = TableSchema("Prices", (Column("p", DataType.DOUBLE, nullable=False), Column("x", DataType.TEXT)), ("p",))
TABLES = {table.name: table for table in (BY_NAME, BY_NUMBER, BY_BOTH, BY_PRICE)}
NAMES = ["", "a", "b", "é", "A", "a b", "5", "-1"]
NUMBERS = [-1, 0, 1, 5, 7, 2**40]
EVALUATOR = Evaluator(ServerLimits())


def filled() -> Host:
    host = Host()
    for table in TABLES.values():
        host.define(table, Position(host.position + 1))
    values = [(True, 1.5, 10**15, "x"), (None, None, None, None), (False, -0.5, 0, "ein langer Text mit Umlaut ä")]
    keys: dict[str, list[tuple[Any, ...]]] = {
        "Names": [(name,) for name in NAMES[:-2]],
        "Numbers": [(number,) for number in NUMBERS[:-1]],
        "Both": [(name, number) for name in NAMES[:4] for number in NUMBERS[:3]],
    }
    for name, some in keys.items():
        updates = [
            Update(name, (*key, *values[nth % 3]), Instant(nth + 1), Origin("s", nth)) for nth, key in enumerate(some)
        ]
        # One row is deleted: its slot stays.
        gone = Update(name, (*some[1], None, None, None, None), Instant(99), Origin("s", 99), Operation.DELETE)
        host.apply(name, to_batch(TABLES[name], [*updates, gone]), Position(host.position + 100))
    rows = [Update("Prices", (price, "x"), Instant(1), Origin("s", nth)) for nth, price in enumerate([0.0, 1.5])]
    host.apply("Prices", to_batch(BY_PRICE, rows), Position(host.position + 10))
    return host


HOST = filled()


def plan(sql: str) -> QueryPlan:
    statement = bind(parse(sql), Catalog(tuple(TABLES.values())))
    assert isinstance(statement, Select)
    return PlanCache(EVALUATOR).make(sql, statement.query, TABLES)


def evaluated(found: QueryPlan, region: Region | None = None) -> pa.Table:
    tables = {name: HOST.latest(name).rows if region is None else HOST.select(name, region) for name in found.tables}
    return EVALUATOR.run(found.statement, tables)


def check(sql: str, region: Region | None = None) -> bool:
    """Compare the two; False where it is no look-up."""
    found = plan(sql)
    if found.lookup is None:
        return False
    latest = HOST.latest(found.lookup.table)
    slots = len(latest.slots)
    got = looked_up(found.lookup, latest) if region is None else looked_up(found.lookup, latest, region)
    expected = evaluated(found, region)
    assert got.schema == expected.schema, sql
    assert got.to_pylist() == expected.to_pylist(), sql
    assert len(latest.slots) == slots
    return True


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT * FROM names WHERE name = 'a'",
        "SELECT Price, NOTE AS remark, hot FROM NAMES WHERE NAME = 'é';",
        "SELECT n.price AS p FROM names AS n WHERE n.name = ''",
        "SELECT at FROM names WHERE name = 'nobody'",
        "SELECT * FROM names WHERE name IN ('é', 'a', 'a', 'nobody', 'A')",
        "SELECT * FROM numbers WHERE n = -1",
        "SELECT * FROM numbers WHERE n IN (7, -1, 0, 1)",
        "SELECT note FROM both WHERE n = 1 AND name = 'é'",
        "SELECT note FROM both WHERE name = 'a' AND n = -1",
        "SELECT name FROM names WHERE name = 'it''s'",
        'SELECT "Note" FROM "Names" WHERE "name" = \'A\' -- by name',
    ],
)
def test_a_lookup_is_what_the_evaluator_says(sql: str) -> None:
    assert check(sql)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT * FROM names",
        "SELECT price + 1 AS more FROM names WHERE name = 'a'",
        "SELECT COUNT(*) AS n FROM names WHERE name = 'a'",
        "SELECT price, price AS PRICE2, price FROM names WHERE name = 'a'",
        "SELECT price FROM names WHERE name = 'a' OR name = 'b'",
        "SELECT price FROM names WHERE NOT name = 'a'",
        "SELECT price FROM names WHERE name <> 'a'",
        "SELECT price FROM names WHERE name NOT IN ('a')",
        "SELECT price FROM names WHERE name = 'a' AND price > 1",
        "SELECT price FROM names WHERE name = 'a' AND name = 'b'",
        "SELECT price FROM names WHERE name = LOWER('A')",
        "SELECT price FROM names WHERE name = 'a' LIMIT 1",
        "SELECT price FROM names WHERE name IN ('a', 'b') ORDER BY price",
        "SELECT DISTINCT price FROM names WHERE name IN ('a', 'b')",
        "SELECT note FROM both WHERE n = 1",
        "SELECT a.note FROM both a, both b WHERE a.n = 1 AND b.name = 'a'",
        "SELECT note FROM (SELECT note, name FROM names) AS t WHERE name = 'a'",
        "WITH names AS (SELECT 'a' AS name, 5 AS price) SELECT price FROM names WHERE name = 'a'",
        "SELECT price FROM names WHERE name IN (SELECT name FROM names)",
        "SELECT price FROM names WHERE name = 'a' UNION SELECT price FROM numbers WHERE n = 1",
        "SELECT hot FROM numbers WHERE n = 1.0",
        "SELECT hot FROM numbers WHERE n = 99999999999999999999",
        "SELECT x FROM prices WHERE p = 1.5",
    ],
)
def test_anything_else_is_left_to_the_evaluator(sql: str) -> None:
    assert plan(sql).lookup is None


NAME = st.sampled_from(NAMES).map(lambda name: f"'{name}'")
NUMBER = st.sampled_from([str(number) for number in [*NUMBERS, 12345678901234567890]])
ANY = st.one_of(NAME, NUMBER, st.sampled_from(["NULL", "TRUE", "1.0", "1e0", "- 1", "'1'"]))
SHOWN = st.lists(
    st.sampled_from(["*", "name", "n", "hot", "price AS p", "at", "NOTE", 'note AS "Remark"', "price + 1 AS q"]),
    min_size=1,
    max_size=4,
    unique=True,
).map(", ".join)
TERM = st.one_of(
    st.builds("name = {}".format, st.one_of(NAME, ANY)),
    st.builds("n = {}".format, st.one_of(NUMBER, ANY)),
    st.builds("n IN ({}, {})".format, NUMBER, ANY),
    st.builds("name IN ({}, {}, {})".format, NAME, NAME, ANY),
    st.just("price > 0"),
)
STATEMENTS = st.builds(
    "SELECT {} FROM {} WHERE {}{}".format,
    SHOWN,
    st.sampled_from(["names", "NUMBERS", "Both", "both AS b"]),
    st.lists(TERM, min_size=1, max_size=3).map(" AND ".join),
    st.sampled_from(["", "", "", " LIMIT 1", " ORDER BY 1"]),
)
CHEAP = Region((Box.of(Side("price", Interval(0.0, 9.0))),))


@settings(max_examples=120, deadline=None)
@given(STATEMENTS, st.booleans())
def test_random_statements(sql: str, restricted: bool) -> None:
    try:
        parsed = bind(parse(sql), Catalog(tuple(TABLES.values())))
    except Exception:
        return
    assert isinstance(parsed, Select)
    check(sql, CHEAP if restricted else None)


def test_rights_hide_rows() -> None:
    found = plan("SELECT name FROM names WHERE name IN ('', 'b', 'é', 'A')")
    assert found.lookup is not None
    latest = HOST.latest("Names")
    assert looked_up(found.lookup, latest).column("name").to_pylist() == ["", "b", "é", "A"]
    assert looked_up(found.lookup, latest, CHEAP).column("name").to_pylist() == ["", "é"]
