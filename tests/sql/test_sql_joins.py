"""Joins as they are bound, against DuckDB running the same SELECT: signs, sides, ends, nulls, a table with itself."""

from random import Random

import duckdb
import pytest

from slackwater.core import Column, DataType, Instant, Origin, Position, Row, TableSchema, Update
from slackwater.core.arrow import to_batch
from slackwater.core.errors import NotSupported
from slackwater.hosting.engine import QueryEngine
from slackwater.processing.columns import python_rows

COLUMNS = (
    Column("id", DataType.BIGINT, nullable=False),
    Column("pos", DataType.DOUBLE),
    Column("speed", DataType.BIGINT),
    Column("team", DataType.TEXT),
)
TABLES = [TableSchema(name, COLUMNS, key=("id",)) for name in ("unit", "target")]


def filled(random: Random) -> tuple[QueryEngine, duckdb.DuckDBPyConnection]:
    engine, other = QueryEngine(), duckdb.connect()
    for position, table in enumerate(TABLES, 1):
        other.execute(f"CREATE TABLE {table.name} (id BIGINT, pos DOUBLE, speed BIGINT, team TEXT)")
        engine.host.define(table, Position(position))
        rows: list[Row] = [
            (
                number,
                random.choice([None, 0.0, -1.5, 2.0, 3.25, 7.0]),
                random.choice([None, 1, 2, 3, 5]),
                random.choice([None, "a", "b"]),
            )
            for number in range(9)
        ]
        updates = [Update(table.name, row, Instant(1), Origin("s", nth)) for nth, row in enumerate(rows)]
        engine.host.apply(table.name, to_batch(table, updates), Position(position))
        other.executemany(f"INSERT INTO {table.name} VALUES (?, ?, ?, ?)", rows)
    return engine, other


def statement(random: Random) -> str:
    def number() -> str:
        return random.choice(["-3", "-1.5", "0", "0.5", "1", "2", "1 + 1", "-(2)", "2 * 1.5"])

    def sign() -> str:
        return random.choice(["<", "<=", ">", ">=", "="])

    columns = [f"{table}.{random.choice(['pos', 'speed'])}" for table in random.sample("ab", 2)]
    difference = " - ".join(columns)
    joins = random.choice(
        [
            " = ".join(columns),
            "a.team = b.team",
            f"{columns[0]} {sign()} {columns[1]}",
            f"{difference} {sign()} {number()}",
            f"{number()} {sign()} {difference}",
            f"({difference}) BETWEEN {number()} AND {number()}",
            f"{difference} > {number()} AND {difference} <= {number()}",
        ]
    )
    parts = []
    for _ in range(random.randint(0, 2)):
        own = f"{random.choice('ab')}.{random.choice(['pos', 'speed'])}"
        more = [f"{own} {sign()} {number()}", f"{own} BETWEEN {number()} AND {number()}", f"NOT {own} < {number()}"]
        parts.append(random.choice(more))
    where = f" WHERE {' AND '.join(parts)}" if parts else ""
    return f"SELECT a.id, b.id FROM unit a JOIN {random.choice(['unit', 'target'])} b ON {joins}{where}"


@pytest.mark.parametrize("seed", range(3))
def test_joins_have_the_pairs_that_sql_gives_them(seed: int) -> None:
    random, found = Random(seed), 0
    engine, other = filled(random)
    for _ in range(60):
        sql = statement(random)
        try:
            query, text, _ = engine.bind(f"SUBSCRIBE {sql}")
        except NotSupported:
            continue
        assert engine.bind(text)[0] == query
        rows = engine.host.register(1, query, Position(9)).rows
        assert rows is not None
        pairs = sorted((row[0], row[4]) for row in python_rows(rows))
        assert pairs == sorted(other.execute(sql).fetchall()), sql
        found += len(pairs)
    assert found > 100
