"""What a query needs is never less than what it reads."""

import pytest

from slackwater.core import Column, DataType, TableSchema
from slackwater.core.query import AggregateFunction
from slackwater.sql import Catalog, parse
from slackwater.sql.required_rows import needed

CARS = TableSchema(
    "cars",
    (
        Column("id", DataType.BIGINT, nullable=False),
        Column("make", DataType.TEXT),
        Column("price", DataType.DOUBLE),
    ),
    key=("id",),
)
CATALOG = Catalog((CARS, TableSchema("makers", (Column("make", DataType.TEXT, nullable=False),), key=("make",))))


@pytest.mark.parametrize(
    ("sql", "region", "rowwise"),
    [
        ("SELECT * FROM cars", "(everything)", True),
        ("SELECT id FROM cars WHERE price BETWEEN 1 AND 2", "(price in [1.0, 2.0])", True),
        ("SELECT id FROM cars WHERE price < 2 AND make LIKE 'a%'", "(price in (-∞, 2.0))", True),
        ("SELECT id FROM cars WHERE price < 2 OR make LIKE 'a%'", "(everything)", True),
        ("SELECT id FROM cars WHERE NOT (price >= 2 OR make LIKE 'a%')", "(everything)", True),
        ("SELECT id FROM cars c WHERE c.price < 2 ORDER BY id", "(price in (-∞, 2.0))", True),
        ("SELECT id FROM cars WHERE price < 2 ORDER BY id LIMIT 3", "(price in (-∞, 2.0))", False),
        ("SELECT DISTINCT make FROM cars WHERE price < 2", "(price in (-∞, 2.0))", False),
        ("SELECT make, COUNT(*) FROM cars WHERE price < 2 GROUP BY make", "(price in (-∞, 2.0))", False),
        ("SELECT id, RANK() OVER (ORDER BY price) FROM cars WHERE price < 2", "(price in (-∞, 2.0))", False),
        (
            "SELECT id FROM cars WHERE price < (SELECT AVG(price) FROM cars WHERE id < 9) AND id = 1",
            "(everything)",
            False,
        ),
        ("SELECT id FROM cars JOIN makers USING (make) WHERE price < 2", "(everything)", True),
        ("SELECT id FROM cars WHERE price < 2 UNION ALL SELECT id FROM cars", "(everything)", True),
        ("SELECT x FROM (SELECT id AS x FROM cars WHERE price < 2) AS y WHERE x > 1", "(everything)", True),
        ("SELECT id FROM cars WHERE price < 2 AND 1 = 0", "nothing", True),
    ],
)
def test_regions(sql: str, region: str, rowwise: bool) -> None:
    found = needed(parse(sql), CATALOG)
    assert found is not None
    assert (str(found.region), found.rowwise) == (region, rowwise)


def test_one_number() -> None:
    found = needed(parse("SELECT AVG(price) AS mean FROM cars WHERE make = 'a'"), CATALOG)
    assert found is not None
    assert found.aggregate is not None
    assert (found.aggregate.function, found.aggregate.column, found.shown) == (AggregateFunction.AVG, "price", "mean")
    for sql in (
        "SELECT AVG(price) FROM cars WHERE make LIKE 'a%'",
        "SELECT AVG(price), 1 FROM cars",
        "SELECT AVG(price) FROM cars HAVING AVG(price) > 1",
        "SELECT AVG(price) + 1 FROM cars",
    ):
        found = needed(parse(sql), CATALOG)
        assert found is not None
        assert found.aggregate is None, sql


def test_other_statements_need_nothing() -> None:
    assert needed(parse("SHOW TABLES"), CATALOG) is None
