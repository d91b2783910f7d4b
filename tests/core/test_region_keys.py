"""The keys that a condition can reach are listed, or it is said that there is no list."""

import pytest

from slackwater.core import Aggregate, Column, DataType, TableSchema
from slackwater.core.region_keys import keys_in, may_hold
from slackwater.hosting.binder import Binder

ROOMS = TableSchema(
    "rooms",
    (
        Column("house", DataType.TEXT, nullable=False),
        Column("room", DataType.BIGINT, nullable=False),
        Column("celsius", DataType.DOUBLE),
    ),
    key=("house", "room"),
)


def region(condition: str) -> Aggregate:
    query = Binder().bind(f"SUBSCRIBE SELECT SUM(celsius) FROM rooms WHERE {condition}", {"rooms": ROOMS})[0]
    assert isinstance(query, Aggregate)
    return query


@pytest.mark.parametrize(
    ("condition", "keys"),
    [
        ("house = 'a' AND room = 3", {("a", 3)}),
        ("house IN ('a', 'b') AND room BETWEEN 1 AND 2", {("a", 1), ("a", 2), ("b", 1), ("b", 2)}),
        ("house = 'a' AND room > 1 AND room < 4", {("a", 2), ("a", 3)}),
        ("(house = 'a' AND room = 1) OR (house = 'b' AND room = 7)", {("a", 1), ("b", 7)}),
        ("house = 'a' AND room = 3 AND celsius > 20", {("a", 3)}),
        ("house = 'a' AND house = 'b' AND room = 1", set()),
        ("house = 'a'", None),
        ("room = 1", None),
        ("house < 'b' AND room = 1", None),
        ("house <> 'b' AND room = 1", None),
        ("house = 'a' AND room > 1", None),
        ("house = 'a' AND room BETWEEN 1 AND 1000000", None),
    ],
)
def test_keys_of_a_condition(condition: str, keys: set[tuple[str, int]] | None) -> None:
    query = region(condition)
    assert keys_in(query.region, ROOMS) == keys
    for key in keys or ():
        assert may_hold(query.region, key, ROOMS)


def test_other_columns_do_not_count() -> None:
    query = region("house < 'c' AND celsius > 20")
    assert may_hold(query.region, ("b", 9), ROOMS)
    assert not may_hold(query.region, ("c", 9), ROOMS)
