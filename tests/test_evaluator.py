"""The evaluator answers from the tables it is given, and can do nothing else."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pyarrow as pa
import pytest

from slackwater.core import Column, DataType, TableSchema
from slackwater.core.errors import NotSupported, SlackwaterError, SqlError
from slackwater.core.statement import Select
from slackwater.evaluator import Evaluator, TooLarge, TooSlow
from slackwater.sessions.limits import ServerLimits
from slackwater.sql import Catalog, bind, parse

SCHEMA = TableSchema(
    "Odd_Name",
    (
        Column("k", DataType.BIGINT, nullable=False),
        Column("v", DataType.DOUBLE),
        Column("at", DataType.TIMESTAMP),
        Column("s", DataType.TEXT),
    ),
    ("k",),
)
ROWS = pa.RecordBatch.from_pydict(
    {
        "k": pa.array(range(5000), pa.int64()),
        "v": pa.array([float(k) for k in range(5000)]),
        "at": pa.array(range(5000), pa.timestamp("us", tz="UTC")),
        "s": ["a", "b", None, "d", "e"] * 1000,
    }
)


def ask(sql: str, limits: ServerLimits | None = None) -> pa.Table:
    evaluator = Evaluator(limits or ServerLimits())
    statement = bind(parse(sql), Catalog((SCHEMA,)))
    assert isinstance(statement, Select)
    return evaluator.run(evaluator.statement(statement.query), {SCHEMA.name: ROWS})


def test_answers_are_those_of_the_rows() -> None:
    found = ask(
        'SELECT s, COUNT(*) AS n, SUM(v) AS total FROM "Odd_Name" WHERE k < 10 GROUP BY s ORDER BY s NULLS LAST'
    )
    assert found.to_pydict() == {
        "s": ["a", "b", "d", "e", None],
        "n": [2, 2, 2, 2, 2],
        "total": [5.0, 7.0, 11.0, 13.0, 9.0],
    }


def test_times_are_in_utc() -> None:
    found = ask("SELECT k FROM \"odd_NAME\" WHERE at >= TIMESTAMP '1970-01-01 00:00:00.004998+00:00' ORDER BY k")
    assert found.column("k").to_pylist() == [4998, 4999]


@pytest.mark.parametrize(
    "sql",
    [
        'SELECT repeat(s, 1000000) FROM "Odd_Name"',
        "SELECT format('{:>1500000000}', s) FROM \"Odd_Name\"",
        "SELECT replace(replace(s, 'a', 'aaaaaaaa'), 'a', 'aaaaaaaa') FROM \"Odd_Name\"",
        "SELECT regexp_replace(s, 'a', 'aaaaaaaa') FROM \"Odd_Name\"",
        "SELECT lpad(s, 1000000, 'x') FROM \"Odd_Name\"",
        "SELECT unnest(generate_series(1, 1000000000))",
        "SELECT pg_read_file('/etc/passwd')",
        "SELECT getenv('HOME')",
        "SELECT current_setting('memory_limit')",
    ],
)
def test_what_could_make_much_out_of_little_is_refused(sql: str) -> None:
    with pytest.raises(NotSupported):
        ask(sql)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT * FROM read_csv('/etc/passwd')",
        "SELECT * FROM '/etc/passwd'",
        "COPY (SELECT 1) TO '/tmp/never'",
        "ATTACH '/tmp/never.db'",
        "SELECT * FROM duckdb_settings()",
    ],
)
def test_nothing_but_the_tables_can_be_read(sql: str) -> None:
    with pytest.raises(SlackwaterError):
        ask(sql)


def test_the_database_itself_is_locked() -> None:
    """Even a statement that our SQL room would never write gets nowhere."""
    evaluator = Evaluator(ServerLimits())
    for statement in (
        "SELECT * FROM read_csv('/etc/passwd')",
        "SET memory_limit = '100GB'",
        "ATTACH '/tmp/never.db' AS other",
        "COPY (SELECT 1) TO '/tmp/never.csv'",
        "INSTALL httpfs",
        "SELECT 1; SELECT 2",
        "CREATE TABLE main.left_behind AS SELECT 1 AS x",
        "CREATE TEMP TABLE left_behind AS SELECT 1 AS x",
        "PREPARE later AS SELECT 1",
        "SET VARIABLE x = 5",
        "PRAGMA database_list",
        "EXPLAIN SELECT 1",
    ):
        with pytest.raises(SqlError):
            evaluator.run(statement, {})


def test_a_query_leaves_nothing_for_the_next() -> None:
    evaluator = Evaluator(ServerLimits())
    mine = pa.table({"secret": [42]})
    assert evaluator.run("SELECT secret FROM mine", {"mine": mine}).column(0).to_pylist() == [42]
    for statement in ("SELECT * FROM mine", "SELECT * FROM temp.mine", "SELECT * FROM memory.main.mine"):
        with pytest.raises(SqlError):
            evaluator.run(statement, {})
    views = evaluator.run("SELECT view_name FROM duckdb_views() WHERE NOT internal", {})
    tables = evaluator.run("SELECT table_name FROM duckdb_tables()", {})
    assert views.num_rows == tables.num_rows == 0


def test_queries_at_once_see_their_own_tables_alone() -> None:
    """Two queries run at the same moment, each over other rows under the same name."""
    evaluator, rounds = Evaluator(ServerLimits()), 30

    def asked(value: int) -> set[int]:
        rows = pa.table({"v": pa.array([value] * 5000)})
        return {
            found
            for _ in range(rounds)
            for found in evaluator.run("SELECT DISTINCT v FROM t", {"t": rows}).column(0).to_pylist()
        }

    with ThreadPoolExecutor(4) as threads:
        assert list(threads.map(asked, range(4))) == [{0}, {1}, {2}, {3}]


def test_limits_on_rows_bytes_and_time() -> None:
    small = ServerLimits()
    with pytest.raises(TooLarge, match="more than 100 rows"):
        ask('SELECT k FROM "Odd_Name"', replace(small, query_rows=100))
    with pytest.raises(TooLarge, match="bytes"):
        ask('SELECT k FROM "Odd_Name"', replace(small, query_bytes=1000))
    with pytest.raises(TooSlow):
        ask(
            'SELECT COUNT(*) FROM "Odd_Name" a, "Odd_Name" b, "Odd_Name" c WHERE a.v + b.v * c.v = 3.5',
            replace(small, query_seconds=0.2),
        )


def test_what_the_database_cannot_do_is_said_in_a_sentence() -> None:
    with pytest.raises(SqlError, match="cannot be evaluated"):
        ask("SELECT CAST(s AS BIGINT) FROM \"Odd_Name\" WHERE s = 'a'")
