"""Queries that stay encoded are the same queries, and their bytes the same bytes."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slackwater.core import Aggregate, AggregateFunction, Position, Selection
from slackwater.core.errors import StoreError
from slackwater.kinds.registry import plain_query
from slackwater.processing.host import Host
from slackwater.processing.kept_queries import KeptQueries
from tests.support.query_strategies import ITEMS, PAIRS, aggregates, selections

QUERIES = st.one_of(aggregates(ITEMS), selections(ITEMS), aggregates(PAIRS), selections(PAIRS))


NUMBERED = st.dictionaries(st.integers(0, 9), QUERIES, max_size=4)


@settings(max_examples=40, deadline=None)
@given(NUMBERED, NUMBERED, st.sets(st.integers(0, 9)))
def test_encoded_queries_are_the_same_queries(
    first: dict[int, Selection], second: dict[int, Selection], gone: set[int]
) -> None:
    wanted, kept = dict(first), KeptQueries.of([[number, plain_query(query)] for number, query in first.items()])
    for number, query in second.items():
        wanted[number] = query
        kept.put(number, query)
    for number in gone:
        wanted.pop(number, None)
        kept.pop(number)
    assert set(kept) == set(wanted)
    assert {type(query) for query in kept.examples()} == {type(query) for query in wanted.values()}
    assert kept.reading("items") == sorted(number for number, query in wanted.items() if query.table == "items")
    eager = KeptQueries()
    for number, query in wanted.items():
        eager.put(number, query)
    assert [bytes(one) for one in kept.plain()] == [bytes(one) for one in eager.plain()]
    assert dict(kept) == wanted


def test_a_snapshot_with_a_kind_that_is_not_known_is_refused() -> None:
    known = [1, plain_query(Selection("items", ("item",)))]
    with pytest.raises(StoreError, match="'median' is not known"):
        KeptQueries.of([known, [2, ["median", "items"]], known])


def test_a_host_that_was_restored_goes_on_with_queries_it_never_decoded() -> None:
    host = Host()
    host.define(ITEMS, Position(1))
    host.register(1, Aggregate("items", AggregateFunction.SUM, "value"), Position(2))
    host.register(2, Selection("items", ("item",)), Position(3))
    other = Host()
    other.restore(host.snapshot())
    assert other.snapshot() == host.snapshot()
    for one in (host, other):
        # Another operator keeps it from now on: the former one has to let go of it.
        one.register(1, Selection("items", ("value",)), Position(4))
        one.unregister(2, Position(5))
        assert one.answer(1).rows is not None
    assert other.snapshot() == host.snapshot()
