"""Which queries an aggregator keeps, within what, and with which sentence it refuses the others."""

from dataclasses import replace

import pytest

from slackwater.aggregator.base import Item
from slackwater.aggregator.mirrored_items import MirroredItems
from slackwater.core import Aggregate, Column, DataType, StandingQuery, TableSchema
from slackwater.core.errors import NotSupported
from slackwater.hosting.binder import Binder

QUOTES = TableSchema(
    "quotes",
    (
        Column("symbol", DataType.TEXT, nullable=False),
        Column("price", DataType.DOUBLE),
        Column("size", DataType.DOUBLE),
    ),
    key=("symbol",),
)
NEVER_NULL = replace(
    QUOTES, columns=(QUOTES.columns[0], Column("price", DataType.DOUBLE, nullable=False), QUOTES.columns[2])
)
ITEMS = [
    Item("x", "quotes", "price", ("a",), 0.5),
    Item("x", "quotes", "price", ("b",), 0.25),
    Item("y", "quotes", "price", ("c",), 0.0),
    Item("y", "quotes", "size", ("c",), 3.0),
]
HELD = MirroredItems(ITEMS)
COMPLETE = MirroredItems(ITEMS, complete=["quotes"])


def query(sql: str, schema: TableSchema = QUOTES) -> StandingQuery:
    return Binder().bind(f"SUBSCRIBE SELECT {sql}", {"quotes": schema, "here": replace(schema, name="here")})[0]


def left(sql: str, mirrored_items: MirroredItems = HELD, schema: TableSchema = QUOTES) -> float:
    """What the operators keep the query within."""
    held = mirrored_items.held(query(sql, schema), schema)
    assert isinstance(held, Aggregate)
    return held.bound.within


@pytest.mark.parametrize(
    ("sql", "within"),
    [
        ("SUM(price) FROM quotes WHERE symbol IN ('a', 'b') WITHIN 2", 1.25),
        ("SUM(price) FROM quotes WHERE symbol IN ('a', 'b') WITHIN 0.75", 0.0),
        ("SUM(4 * price) FROM quotes WHERE symbol = 'b' WITHIN 2", 1.0),
        ("SUM(w * price) FROM quotes JOIN (VALUES ('a', -2), ('c', 9)) AS p(symbol, w) USING (symbol) WITHIN 2", 1.0),
        ("AVG(price) FROM quotes WHERE symbol IN ('a', 'b', 'c') WITHIN 2", 1.5),
        ("MIN(price) FROM quotes WHERE symbol IN ('b', 'c') WITHIN 2", 1.75),
        ("MAX(price) FROM quotes WHERE symbol IN ('a', 'b') WITHIN 2 FIDELITY 90%", 1.5),
        ("COUNT(price) FROM quotes WHERE symbol IN ('a', 'b')", 0.0),
        ("SUM(price) FROM quotes WHERE symbol = 'c'", 0.0),
        ("SUM(price) FROM quotes WHERE symbol = 'c' AND price > 5", 0.0),
        ("SUM(price) FROM here WITHIN 2", 2.0),
    ],
)
def test_what_is_left_of_a_bound(sql: str, within: float) -> None:
    assert left(sql) == within


@pytest.mark.parametrize(
    ("sql", "told"),
    [
        ("SUM(price) FROM quotes WHERE symbol IN ('a', 'b') WITHIN 0.7", "can be promised here is WITHIN 0.75"),
        ("SUM(price) FROM quotes WHERE symbol = 'a'", "cannot be kept exactly: .* WITHIN 0.5"),
        ("SUM(price) FROM quotes WITHIN 99", "may read others: list them, as in WHERE symbol IN"),
        ("SUM(price) FROM quotes WHERE symbol <> 'a' WITHIN 99", "may read others"),
        ("SUM(price) FROM quotes WHERE symbol IN ('a', 'z') WITHIN 99", "does not hold price of quotes for 'z'"),
        ("SUM(size) FROM quotes WHERE symbol IN ('a', 'c') WITHIN 99", "does not hold size of quotes for 'a'"),
        (
            "SUM(w * price) FROM quotes JOIN (VALUES ('a', 1), ('q', 9)) AS p(symbol, w) USING (symbol) WITHIN 99",
            "does not hold price of quotes for 'q'",
        ),
        ("SUM(price) FROM quotes WHERE symbol = 'a' AND price > 5 WITHIN 9", "a condition on price would need it"),
        ("* FROM quotes WHERE symbol = 'a'", "does not hold size"),
        ("symbol, price FROM quotes WHERE symbol = 'a'", "rows would need it exactly; ask the upstream"),
        ("COUNT(*) FROM quotes WHERE symbol = 'a'", r"cannot be told from one that is not there; count a column"),
        ("symbol, price FROM quotes WHERE symbol = 'c'", "cannot be told from one that is not there; ask the upstream"),
        ("* FROM quotes JOIN here USING (symbol)", "an aggregator keeps no joins"),
    ],
)
def test_what_is_refused(sql: str, told: str) -> None:
    with pytest.raises(NotSupported, match=told):
        HELD.check(query(sql), QUOTES)


def test_a_column_that_is_never_null_tells_which_rows_there_are() -> None:
    assert left("COUNT(*) FROM quotes WHERE symbol IN ('a', 'b')", schema=NEVER_NULL) == 0.0
    asked = query("symbol, price FROM quotes WHERE symbol = 'c'", NEVER_NULL)
    assert HELD.held(asked, NEVER_NULL) == asked


def test_a_complete_table_may_be_asked_about_by_any_condition_on_the_key() -> None:
    assert left("SUM(price) FROM quotes WITHIN 2", COMPLETE) == 1.25
    assert left("SUM(price) FROM quotes WHERE symbol > 'a' WITHIN 2", COMPLETE) == 1.75
    assert left("SUM(price) FROM quotes WHERE symbol IN ('a', 'z') WITHIN 2", COMPLETE) == 1.5


def test_a_query_depends_on_the_upstreams_of_what_it_reads() -> None:
    assert HELD.feeds(query("SUM(price) FROM quotes WHERE symbol = 'a' WITHIN 2"), QUOTES) == {"x"}
    assert HELD.feeds(query("SUM(price) FROM quotes WHERE symbol IN ('a', 'c') WITHIN 2"), QUOTES) == {"x", "y"}
    assert HELD.feeds(query("SUM(price) FROM here"), QUOTES) == frozenset()


def test_what_is_polled_is_for_queries_that_may_be_wrong_at_times() -> None:
    polled = MirroredItems([], polled={"quotes": "bank"})
    with pytest.raises(NotSupported, match=r"between two polls nothing is known: .* WITHIN 3 FIDELITY 95%"):
        polled.check(query("SUM(price) FROM quotes WITHIN 3"), QUOTES)
    asked = query("SUM(price) FROM quotes WITHIN 3 FIDELITY 98%")
    assert polled.held(asked, QUOTES) == asked
    assert polled.feeds(asked, QUOTES) == {"bank"}
    polled.check(query("* FROM quotes"), QUOTES)


def test_only_what_is_whole_and_exact_may_be_asked_about_once() -> None:
    assert not HELD.exact("quotes")
    assert not COMPLETE.exact("quotes")
    assert HELD.exact("here")
    assert MirroredItems([Item("x", "quotes", "price", ("a",), 0.0)], complete=["quotes"]).exact("quotes")
    assert not MirroredItems([Item("x", "quotes", "price", ("a",), 0.0)]).exact("quotes")


def test_a_table_that_nothing_feeds_any_more_is_not_taken_for_our_own() -> None:
    mirrored_items = MirroredItems([])
    assert mirrored_items.exact("quotes")
    mirrored_items.orphaned = frozenset({"quotes"})
    assert not mirrored_items.exact("quotes")
    with pytest.raises(NotSupported, match="nothing brings them any more"):
        mirrored_items.held(query("SUM(price) FROM quotes WITHIN 2"), QUOTES)
    assert mirrored_items.fed == frozenset()
    assert HELD.fed == {"quotes"}
