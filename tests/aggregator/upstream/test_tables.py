"""What an upstream's table looks like here, and the standing query that holds an item of it."""

import pytest

from slackwater.aggregator.base import Item
from slackwater.aggregator.upstream.connection import batch_of, statement
from slackwater.aggregator.upstream.state import WrittenRow
from slackwater.aggregator.upstream.tables import mirrored
from slackwater.core import Aggregate, Column, DataType, TableSchema
from slackwater.core.errors import SchemaError
from slackwater.core.types import Scalar
from slackwater.hosting.binder import Binder

THERE = TableSchema(
    "odd table",
    (
        Column("at", DataType.TIMESTAMP),
        Column("who's", DataType.TEXT, nullable=False),
        Column("n", DataType.BIGINT, nullable=False),
        Column("when", DataType.TIMESTAMP, nullable=False),
        Column("count", DataType.BIGINT, nullable=False),
        Column("price", DataType.DOUBLE),
        Column("note", DataType.TEXT),
    ),
    key=("who's", "n", "when"),
    event_time="at",
)
KEY, OTHER = ("it's", 3, 86_400_000_000), ("b", 4, 0)


def item(column: str, key: tuple[str | int, ...] = KEY, within: float = 0.5) -> Item:
    return Item("x", "odd table", column, key, within)


def test_the_key_and_what_is_held_and_nothing_else() -> None:
    here = mirrored(THERE, [item("count"), item("price"), item("count", OTHER)], None)
    assert here.key == THERE.key
    assert here.event_time is None
    assert [(one.name, one.type, one.nullable) for one in here.values] == [
        ("count", DataType.DOUBLE, False),
        ("price", DataType.DOUBLE, True),
    ]


def test_a_column_that_is_not_held_for_all_keys_can_be_null() -> None:
    assert mirrored(THERE, [item("count"), item("price", OTHER)], None).column("count").nullable


def test_a_table_that_is_here_gets_more_columns() -> None:
    here = mirrored(THERE, [item("price")], None)
    wider = mirrored(THERE, [item("price"), item("count")], here)
    here.check_change(wider)
    assert wider.column("count").nullable
    assert mirrored(THERE, [item("count")], wider) == wider


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        (item("nothing"), "no column 'nothing'"),
        (item("note"), "not a number"),
        (item("n"), "is a key"),
        (item("price", ("a",)), "does not fit"),
        (item("price", (1, 1, 1)), "who's of odd table is TEXT, and 1"),
    ],
)
def test_items_that_cannot_be(wrong: Item, told: str) -> None:
    with pytest.raises(SchemaError, match=told):
        mirrored(THERE, [wrong], None)


def test_another_key_is_refused() -> None:
    other = TableSchema("odd table", (Column("id", DataType.TEXT, nullable=False),), key=("id",))
    with pytest.raises(SchemaError, match="here with the key id"):
        mirrored(THERE, [item("price")], other)


def test_the_standing_query_of_an_item_asks_for_it_alone() -> None:
    text = statement(item("price", within=0.125), THERE)
    query = Binder().bind(text, {THERE.name: THERE})[0]
    assert isinstance(query, Aggregate)
    row: dict[str, Scalar] = {"who's": "it's", "n": 3, "when": 86_400_000_000}
    assert query.region.contains(row.get)
    assert not query.region.contains((row | {"who's": "its"}).get)
    assert "WITHIN 0.125" in text


def test_rows_as_columns() -> None:
    here = mirrored(THERE, [item("price")], None)
    rows = [WrittenRow("odd table", KEY, {"price": 2.0}), WrittenRow("odd table", OTHER, {"price": None})]
    batch = batch_of(here, rows, 70, 1_000_000)
    assert batch.column("$seq").to_pylist() == [70, 71]
    assert batch.column("$op").to_pylist() == [0, 1]
    assert batch.column("price").to_pylist() == [2.0, None]
    assert [value.timestamp() for value in batch.column("when").to_pylist()] == [86_400.0, 0.0]
