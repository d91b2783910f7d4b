"""Joins that are too large, and a node that goes on: what a stranger asks for, and what small answers grow into."""

import pytest

from slackwater.core import HostKind
from slackwater.core.errors import NotSupported
from slackwater.dissemination.messages import (
    Ack,
    Refused,
    Resumed,
    Snapshot,
    Subscribe,
    Subscribed,
    Suspended,
    Upsert,
)
from slackwater.kinds.registry import plain_query
from slackwater.log import Registered, Unregistered
from slackwater.processing.joined import StandingJoins
from slackwater.sessions.engine import NodeEngine
from tests.support.join_bench import ALL, Joined, kinds
from tests.support.joins import families, joins

EQUAL = "SUBSCRIBE SELECT items.id, others.id FROM items JOIN others ON others.price = items.price"


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Joined:
    monkeypatch.setattr(StandingJoins, "most_pairs", 20)
    return Joined()


def test_what_is_too_large_is_refused_and_never_gets_into_the_log(bench: Joined) -> None:
    bench.put("items", *range(5))
    bench.put("others", *range(5))
    [refused] = bench.subscribed(ALL)
    assert isinstance(refused, Refused)
    assert "25 pairs" in refused.why
    assert not bench.engine.registrations


def test_a_registration_that_grew_on_its_way_through_the_log_is_passed_over(bench: Joined) -> None:
    query, text, _ = bench.engine.bind(ALL)
    bench.append(bench.rows("items", *range(5)), bench.rows("others", *range(5)))
    bench.append(Registered("items", text, "p", None, query=plain_query(query)))
    assert not bench.engine.registrations
    assert not bench.engine.host.queries


def test_an_answer_that_grew_too_large_is_suspended_when_somebody_needs_the_whole(bench: Joined) -> None:
    bench.put("items", *range(4))
    bench.put("others", *range(4))
    for connection in (2, 3):
        bench.open(connection)
        assert kinds(bench.subscribed(ALL, connection)) == [Subscribed, Snapshot]
    bench.put("others", 4, 5)
    # Who listened is told changes, as before.
    assert kinds(bench.facts(2)) == [Upsert] * 8
    bench.facts(3)
    bench.open(4)
    [refused] = bench.subscribed(ALL, 4)
    assert isinstance(refused, Refused)
    # One of them loses so much that it needs everything: then nobody is told more.
    assert bench.state is not None
    for kept in bench.state.subscriptions.queries:
        kept.snapshots.clear()
    bench.state.sessions[3]._pending_whole = True
    bench.put("others", 6)
    for connection in (2, 3):
        suspended = [fact for fact in bench.facts(connection) if isinstance(fact, Suspended)]
        assert suspended
        assert "28 pairs" in suspended[-1].why
    bench.put("others", 7)
    assert Upsert not in kinds(bench.facts(2))


def test_a_step_of_too_many_results_is_told_as_whole_answers(bench: Joined) -> None:
    joins(bench.engine.host).most_results = 6
    bench.put("items", *range(4))
    assert kinds(bench.subscribed(ALL)) == [Subscribed, Snapshot]
    assert bench.state is not None
    bench.say(Ack(bench.state.sessions[1].sequence, 100))
    bench.put("others", 0)
    assert kinds(bench.facts()) == [Upsert] * 4
    bench.put("others", 1, 2)
    [whole] = bench.facts()
    assert isinstance(whole, Snapshot)
    assert whole.count == 12
    bench.put("others", 3, price=2.0)
    assert kinds(bench.facts()) == [Upsert] * 4
    # Beyond the limit there is no whole answer to tell.
    bench.put("others", 4, 5, 6)
    assert kinds(bench.facts()) == [Suspended]


def test_an_answer_that_is_small_again_is_told_again(bench: Joined) -> None:
    joins(bench.engine.host).most_results = 6
    bench.put("items", *range(4))
    for ref, text in enumerate((ALL, ALL.replace("1000", "900"))):
        assert kinds(bench.subscribed(text, ref=ref)) == [Subscribed, Snapshot]
    assert bench.state is not None
    heartbeat = bench.state.rules.heartbeat
    bench.put("others", *range(6))
    assert kinds(bench.facts()) == [Suspended] * 2
    bench.wait(heartbeat)
    bench.put("others", 6)
    bench.append(bench.rows("others", *range(1, 7), gone=True))
    assert set(kinds(bench.facts())) == {Suspended}
    # One after the other, each with the whole answer.
    for _ in range(2):
        bench.wait(heartbeat)
        resumed, whole = bench.facts()
        assert isinstance(resumed, Resumed)
        assert isinstance(whole, Snapshot)
        assert whole.count == 4
    joins(bench.engine.host).most_results = 100
    bench.put("others", 7)
    assert kinds(bench.facts()) == [Upsert] * 8


def test_what_was_kept_is_kept_after_a_snapshot_too(bench: Joined) -> None:
    bench.put("items", 1)
    bench.put("others", 1)
    bench.subscribed(EQUAL)
    again = NodeEngine()
    again.restore(bench.engine.snapshot())
    assert joins(again.host).most_results == joins(NodeEngine().host).most_results is not None


def test_shapes_have_a_limit_because_each_has_all_rows(bench: Joined, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(StandingJoins, "most_shapes", 2)
    assert Subscribed in kinds(bench.subscribed(ALL, ref=1))
    assert Subscribed in kinds(bench.subscribed(EQUAL, ref=2))
    [refused] = bench.subscribed(EQUAL + " WHERE items.price > 2", ref=3)
    assert isinstance(refused, Refused)
    assert "2 shapes" in refused.why
    # Of the shapes that there are, there may be more.
    assert Subscribed in kinds(bench.subscribed(ALL.replace("1000", "900"), ref=4))


def test_shapes_that_are_asked_for_all_at_once_have_the_same_limit(
    bench: Joined, monkeypatch: pytest.MonkeyPatch
) -> None:
    """None of them is in the log when the others are asked for: the log decides, and who was too late is told."""
    monkeypatch.setattr(StandingJoins, "most_shapes", 2)
    texts = [ALL, EQUAL, EQUAL + " WHERE items.price > 2", EQUAL + " WHERE others.price > 2"]
    for ref, text in enumerate(texts):
        bench.say(Subscribe(ref, text))
    bench.grant()
    told = bench.facts()
    assert kinds(told).count(Subscribed) == 2
    assert len(families(bench.engine.host)) == 2
    assert bench.state is not None
    bench.wait(bench.state.rules.append_again)
    assert [fact.ref for fact in bench.facts() if isinstance(fact, Refused)] == [2, 3]


@pytest.mark.parametrize("after_a_snapshot", [False, True])
def test_shapes_that_spark_keeps_count_too(
    bench: Joined, monkeypatch: pytest.MonkeyPatch, after_a_snapshot: bool
) -> None:
    monkeypatch.setattr(StandingJoins, "most_shapes", 1)
    query, text, _ = bench.engine.bind(EQUAL)
    spark = HostKind.SPARK.value
    bench.append(Registered("items", text, "p", None, query=plain_query(query), host=spark))
    assert not bench.engine.host.queries
    if after_a_snapshot:
        state, bench.engine = bench.engine.snapshot(), NodeEngine()  # type: ignore[assignment]
        bench.engine.restore(state)
    with pytest.raises(NotSupported, match="1 shapes"):
        bench.engine.bind(ALL)
    # When the last of a shape has gone, there is room for another.
    bench.append(Unregistered("items", next(iter(bench.engine.registrations))))
    assert bench.engine.bind(ALL)
