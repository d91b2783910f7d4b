"""A plan by shape equals the plan that binding the statement gives, or there is none."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slackwater.core import Column, DataType, TableSchema
from slackwater.core.query import OneShot
from slackwater.core.statement import Select
from slackwater.evaluator import Evaluator
from slackwater.server.oneshot import plans as plans_module
from slackwater.server.oneshot.plans import PlanCache, QueryPlan
from slackwater.sessions.limits import ServerLimits
from slackwater.sql import Catalog, bind, parse

QUOTES = TableSchema(
    "Quotes",
    (
        Column("symbol", DataType.TEXT, nullable=False),
        Column("price", DataType.DOUBLE),
        Column("volume", DataType.BIGINT),
        Column("at", DataType.TIMESTAMP),
    ),
    ("symbol",),
)
TABLES = {"Quotes": QUOTES}
EVALUATOR = Evaluator(ServerLimits())


def bound(sql: str, tables: dict[str, TableSchema] = TABLES) -> QueryPlan:
    """The plan without any memory."""
    statement = bind(parse(sql), Catalog(tuple(tables.values())))
    assert isinstance(statement, Select)
    return PlanCache(EVALUATOR).make(sql, statement.query, tables)


def learn(plans: PlanCache, sql: str) -> None:
    plans.find(sql, TABLES)
    statement = bind(parse(sql), Catalog((QUOTES,)))
    assert isinstance(statement, Select)
    assert plans.make(sql, statement.query, TABLES) == bound(sql)


SHAPED = [
    "SELECT price FROM quotes WHERE symbol = '{t}'",
    "SELECT * FROM quotes WHERE symbol IN ('{t}', 'b{n}', '{t}')",
    "SELECT symbol, AVG(price) AS a1 FROM quotes WHERE volume > {n} AND price < -{m} GROUP BY symbol LIMIT {m}",
    "SELECT CASE WHEN volume = {n} THEN '{t}' ELSE 'x' END AS \"odd 7\" FROM quotes WHERE price > {m}.5",
    "SELECT a.price FROM quotes a JOIN quotes b ON a.symbol = b.symbol WHERE a.volume = {n} AND b.volume = {n}",
]


@settings(max_examples=40, deadline=None)
@given(st.sampled_from(SHAPED), st.lists(st.tuples(st.text(max_size=8), st.integers(0, 10**19), st.integers(0, 9))))
def test_plans_by_shape_are_those_of_binding(shape: str, values: list[tuple[str, int, int]]) -> None:
    plans = PlanCache(EVALUATOR)
    for text, number, other in [("a", 1, 2), ("b", 3, 4), *values[:4]]:
        sql = shape.format(t=text.replace("'", "''"), n=number, m=other)
        try:
            expected = bound(sql)
        except Exception:
            expected = None
        found = plans.find(sql, TABLES)
        if found is not None:
            assert found == expected
        elif expected is not None:
            learn(plans, sql)


@pytest.mark.parametrize("shape", SHAPED)
def test_a_shape_is_known_once_it_was_met_twice(shape: str) -> None:
    plans = PlanCache(EVALUATOR)
    for text, number in (("a", 5), ("b", 6)):
        learn(plans, shape.format(t=text, n=number, m=7))
    sql = shape.format(t="other", n=99, m=7)
    assert plans.find(sql, TABLES) == bound(sql)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT symbol, price FROM quotes ORDER BY {}",
        "SELECT volume, COUNT(*) AS n FROM quotes GROUP BY {}",
        "SELECT symbol FROM quotes -- {}",
        "SELECT symbol FROM quotes WHERE symbol = 'it''s {}'",
        "SELECT price AS x{} FROM quotes",
        "SELECT price FROM quotes WHERE price > 0{}",
    ],
)
def test_literals_that_mean_more_than_their_value_are_read_anew(sql: str) -> None:
    plans = PlanCache(EVALUATOR)
    for number in (1, 1, 1):
        learn(plans, sql.format(number))
    found = plans.find(sql.format(2), TABLES)
    assert found is None or found == bound(sql.format(2))
    assert plans.find(sql.format(1), TABLES) == bound(sql.format(1))


def test_another_table_under_the_name_is_another_plan() -> None:
    plans = PlanCache(EVALUATOR)
    sql = "SELECT * FROM quotes"
    learn(plans, sql)
    assert plans.find(sql, TABLES) is not None
    wider = {"Quotes": TableSchema("Quotes", (*QUOTES.columns, Column("more", DataType.TEXT)), ("symbol",))}
    assert plans.find(sql, wider) is None
    # One that was bound before the tables changed is not remembered.
    statement = bind(parse(sql), Catalog((QUOTES,)))
    assert isinstance(statement, Select)
    plans.make(sql, statement.query, TABLES)
    assert plans.find(sql, wider) is None


KEYED = TableSchema(
    "Keyed",
    (Column("n", DataType.BIGINT, nullable=False), Column("t", DataType.TEXT, nullable=False)),
    ("n", "t"),
)
NUMBERED = TableSchema("Numbered", (Column("n", DataType.BIGINT, nullable=False),), ("n",))


@pytest.mark.parametrize(
    ("table", "first", "second", "others"),
    [
        # A text with a unit in it is more than a value.
        (
            QUOTES,
            "SELECT price FROM quotes WHERE at > CAST('2026-01-01 00:00:00Z' AS TIMESTAMP) + INTERVAL '5 day'",
            "SELECT price FROM quotes WHERE at > CAST('2026-01-01 00:00:00Z' AS TIMESTAMP) + INTERVAL '6 day'",
            ["SELECT price FROM quotes WHERE at > CAST('2026-01-01 00:00:00Z' AS TIMESTAMP) + INTERVAL '7 hours'"],
        ),
        # Zeros before a number are kept, and beyond so many digits it is no key.
        (
            NUMBERED,
            "SELECT n FROM numbered WHERE n = 5",
            "SELECT n FROM numbered WHERE n = 6",
            [f"SELECT n FROM numbered WHERE n = {n}" for n in ("007", "00", "0", "9" * 18, "9" * 19, "-5", "7.0")],
        ),
        (
            NUMBERED,
            "SELECT n FROM numbered WHERE n IN (007, 5)",
            "SELECT n FROM numbered WHERE n IN (007, 6)",
            ["SELECT n FROM numbered WHERE n IN (007, 7)", "SELECT n FROM numbered WHERE n IN (7, 007)"],
        ),
        (
            KEYED,
            "SELECT n FROM keyed WHERE n = 007 AND t = 'a'",
            "SELECT n FROM keyed WHERE n = 007 AND t = 'b'",
            ["SELECT n FROM keyed WHERE n = 007 AND t = 'c'", "SELECT n FROM keyed WHERE n = 7 AND t = 'c'"],
        ),
    ],
)
def test_a_plan_by_shape_is_that_of_binding_or_none(
    table: TableSchema, first: str, second: str, others: list[str]
) -> None:
    tables = {table.name: table}
    plans = PlanCache(EVALUATOR)
    for sql in (first, second):
        statement = bind(parse(sql), Catalog((table,)))
        assert isinstance(statement, Select)
        assert plans.find(sql, tables) is None
        assert plans.make(sql, statement.query, tables) == bound(sql, tables)
    for sql in (*others, first, second):
        assert plans.find(sql, tables) in (None, bound(sql, tables)), sql


class Folding:
    """A lowering that writes one text and one number in another way than all others."""

    def statement(self, query: OneShot) -> str:
        return EVALUATOR.statement(query).replace("'day'", "'DAY'").replace("< 0", "< 0.0")


@pytest.mark.parametrize("condition", ["symbol = 'day'", "price < 0"])
def test_a_template_that_does_not_give_the_plan_is_not_kept(condition: str) -> None:
    plans, sql = PlanCache(Folding()), f"SELECT price FROM quotes WHERE {condition}"
    statement = bind(parse(sql), Catalog((QUOTES,)))
    assert isinstance(statement, Select)
    for _ in range(3):
        found = plans.find(sql, TABLES) or plans.make(sql, statement.query, TABLES)
        assert found.statement == Folding().statement(statement.query)


def test_a_quote_that_is_not_closed_is_no_literal() -> None:
    plans = PlanCache(EVALUATOR)
    for sql in ("SELECT price FROM quotes WHERE symbol = 'a' AND volume = 1",) * 2:
        learn(plans, sql)
    assert plans.find("SELECT price FROM quotes WHERE symbol = 'b' AND volume = 2", TABLES) is not None
    assert plans.find("SELECT price FROM quotes WHERE symbol = ?' AND volume = 2", TABLES) is None
    assert plans.find("SELECT price FROM quotes WHERE symbol = 'b' AND volume = ?0", TABLES) is None


def test_tables_that_change_while_a_plan_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    plans = PlanCache(EVALUATOR)
    wider = {"Quotes": TableSchema("Quotes", (*QUOTES.columns, Column("more", DataType.TEXT)), ("symbol",))}
    shape_of = plans_module._shape

    def changed_meanwhile(sql: str) -> plans_module._Shape | None:
        monkeypatch.setattr(plans_module, "_shape", shape_of)
        plans.find(sql, wider)
        return shape_of(sql)

    for number in range(3):
        sql = "SELECT * FROM quotes" if number == 0 else f"SELECT * FROM quotes WHERE volume = {number}"
        statement = bind(parse(sql), Catalog((QUOTES,)))
        assert isinstance(statement, Select)
        plans.find(sql, TABLES)
        monkeypatch.setattr(plans_module, "_shape", changed_meanwhile)
        plans.make(sql, statement.query, TABLES)
        assert plans.find(sql, wider) is None


def test_many_letters_are_no_bounded_cost() -> None:
    plans = PlanCache(EVALUATOR)
    sql = "SELECT UPPER(CASE WHEN volume > 5 THEN '{}' ELSE 'b' END) AS x FROM quotes"
    for text in ("a", "b", "c"):
        learn(plans, sql.format(text))
        assert bound(sql.format(text)).is_bounded()
    for length in (2_000, 60_000):
        long = sql.format("x" * length)
        assert not bound(long).is_bounded()
        assert plans.find(long, TABLES) in (None, bound(long))
    assert plans.find(sql.format("x" * 2_000), TABLES) is not None


def test_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plans_module, "MOST_TEXTS", 3)
    monkeypatch.setattr(plans_module, "MOST_SHAPES", 3)
    plans = PlanCache(EVALUATOR)
    for number in range(10):
        learn(plans, f"SELECT price AS x{number} FROM quotes")
        for value in (1, 2, 3):
            learn(plans, f"SELECT price AS x{number} FROM quotes WHERE volume = {value}")
        assert len(plans._known.texts) <= 3
        assert len(plans._known.shapes) <= 3
        assert len(plans._known.tried) <= 3
    long = f"SELECT price FROM quotes WHERE symbol = '{'x' * 5000}'"
    learn(plans, long)
    assert plans.find(long, TABLES) is None
