"""The contract of kinds (`kinds/base.py`), over every entry of `KINDS`."""

import pytest
from msgspec import msgpack

from slackwater.core import Box, Column, DataType, Interval, Key, Region, Scalar, Side, TableSchema
from slackwater.core.errors import SlackwaterError
from slackwater.core.query import StandingQuery
from slackwater.hosting.binder import Binder
from slackwater.kinds.registry import KINDS, bind_text, check_query, kept_as, kind_of, plain_query, query_of
from slackwater.sql import Catalog
from slackwater.sql.parse import write

QUOTES = TableSchema("quotes", (Column("symbol", DataType.TEXT, False), Column("price", DataType.DOUBLE)), ("symbol",))
ORDERS = TableSchema("orders", (Column("id", DataType.BIGINT, False), Column("most", DataType.DOUBLE)), ("id",))
TABLES = {"quotes": QUOTES, "orders": ORDERS}
ROWS: dict[str, dict[Key, dict[str, Scalar | None]]] = {
    "quotes": {
        ("A",): {"symbol": "A", "price": 10.0},
        ("B",): {"symbol": "B", "price": 20.0},
        ("C",): {"symbol": "C", "price": None},
    },
    "orders": {(1,): {"id": 1, "most": 12.0}, (2,): {"id": 2, "most": 40.0}},
}
CHEAP = Region((Box((Side("price", Interval(None, 15.0)),)),))

TEXTS = {
    "aggregate": [
        "SUBSCRIBE SELECT SUM(price) FROM quotes WITHIN 2 FIDELITY 98%",
        "SUBSCRIBE SELECT COUNT(*) FROM quotes WHERE price > 15",
        "SUBSCRIBE SELECT SUM(2 * price) FROM quotes WITHIN 5",
    ],
    "selection": ["SUBSCRIBE SELECT symbol, price FROM quotes WHERE price BETWEEN 5 AND 15 OR price IS NULL"],
    "join": [
        "SUBSCRIBE SELECT q.symbol, o.id FROM quotes q JOIN orders o ON q.price - o.most BETWEEN -5 AND 5"
        " WHERE q.price > 5"
    ],
    "cache": ["CACHE trader-7 OF quotes LIMIT 100"],
}
CASES = [(kind, text) for kind, texts in TEXTS.items() for text in texts]


def bound(text: str) -> StandingQuery:
    return Binder().bind(text, TABLES)[0]


def test_every_kind_is_tried() -> None:
    assert {kind.name for kind in KINDS} == set(TEXTS)
    assert len({kind.value for kind in KINDS}) == len(KINDS)


@pytest.mark.parametrize(("kind", "text"), CASES)
def test_a_text_is_of_its_kind_and_binds_to_equal_values(kind: str, text: str) -> None:
    query = bound(text)
    assert kind_of(query).name == kind
    assert query == bound(text)
    assert hash(query) == hash(bound(text))
    check_query(query, TABLES.__getitem__)


@pytest.mark.parametrize(("kind", "text"), CASES)
def test_encoding_comes_back(kind: str, text: str) -> None:
    query = bound(text)
    body = msgpack.encode(plain_query(query))
    assert body == msgpack.encode(plain_query(bound(text)))
    assert query_of(msgpack.decode(body), text) == query


@pytest.mark.parametrize(("kind", "text"), CASES)
def test_syntax_binds_to_the_query_again(kind: str, text: str) -> None:
    query = bound(text)
    written = write(kind_of(query).syntax(query, Catalog(tuple(TABLES.values()))))
    # A text that is not SQL has the SQL of what operators keep of it.
    assert bound(written) == (query if bind_text(text, TABLES) is None else kept_as(query))


@pytest.mark.parametrize(("kind", "text"), CASES)
def test_a_query_that_no_longer_fits_its_tables_is_refused(kind: str, text: str) -> None:
    renamed = {
        name: TableSchema(name, (table.columns[0], Column("other", DataType.TEXT)), table.key)
        for name, table in TABLES.items()
    }
    query = bound(text)
    with pytest.raises(SlackwaterError, match=r"price|most"):
        check_query(query, renamed.__getitem__)


@pytest.mark.parametrize(("kind", "text"), CASES)
def test_conjoining_a_region_is_asking_the_rows_in_it(kind: str, text: str) -> None:
    query = bound(text)
    mine = {**ROWS, "quotes": {key: row for key, row in ROWS["quotes"].items() if row["price"] == 10.0}}
    narrowed = kind_of(query).conjoin(query, "quotes", CHEAP)
    assert kind_of(query).recompute(narrowed, ROWS) == kind_of(query).recompute(query, mine)
    assert plain_query(narrowed) != plain_query(query) or kind == "cache"
