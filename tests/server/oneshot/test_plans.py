"""A plan by shape equals the plan that binding the statement gives, or there is none."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slackwater.core import Column, DataType, TableSchema
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


def test_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plans_module, "MOST_TEXTS", 3)
    monkeypatch.setattr(plans_module, "MOST_SHAPES", 3)
    plans = PlanCache(EVALUATOR)
    for number in range(10):
        learn(plans, f"SELECT price AS x{number} FROM quotes")
        for value in (1, 2, 3):
            learn(plans, f"SELECT price AS x{number} FROM quotes WHERE volume = {value}")
        assert len(plans._texts) <= 3
        assert len(plans._shapes) <= 3
        assert len(plans._tried) <= 3
    long = f"SELECT price FROM quotes WHERE symbol = '{'x' * 5000}'"
    learn(plans, long)
    assert plans.find(long, TABLES) is None
