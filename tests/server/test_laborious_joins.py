"""Joins that take too long to follow though they have no answer: told to whoever asked, and what stands beside them."""

import pytest

from slackwater.dissemination.messages import Ack, Delete, Resumed, Snapshot, Subscribed, Suspended, Upsert
from slackwater.sessions.engine import MOST_STEPS, NodeEngine
from slackwater.sessions.events import QueriesResumed, QueriesSuspended
from slackwater.sessions.rules import SessionRules
from slackwater.sessions.state import ServerState
from tests.support.join_bench import Joined, kinds
from tests.support.joins import joins

JOINED = "SUBSCRIBE SELECT items.id, others.id FROM items JOIN others ON "
FEW = JOINED + "others.price - items.price < 1000 WHERE others.id = 3"
NONE = FEW.replace("= 3", "< -3")
BESIDE = JOINED + "others.id = items.id"


@pytest.fixture
def bench() -> Joined:
    made = Joined()
    joins(made.engine.host).most_steps = 100
    made.put("items", 0, 1)
    made.put("others", *range(20))
    return made


def acknowledge(bench: Joined, connection: int = 1) -> None:
    assert bench.state is not None
    bench.say(Ack(bench.state.sessions[connection].sequence, 100), connection)


def small_again(bench: Joined) -> None:
    """So few rows across that the join can be followed."""
    bench.append(bench.rows("others", *range(4, 20), gone=True))
    bench.append(bench.rows("items", *range(2, 10), gone=True))


def test_whoever_asked_is_told_and_others_are_served(bench: Joined) -> None:
    assert kinds(bench.subscribed(NONE)) == [Subscribed, Snapshot]
    bench.open(2)
    assert kinds(bench.subscribed(BESIDE, 2)) == [Subscribed, Snapshot]
    bench.put("items", 2)
    assert not bench.facts()
    assert kinds(bench.facts(2)) == [Upsert]
    acknowledge(bench, 2)
    bench.put("items", *range(3, 10))
    [suspended] = bench.facts()
    assert isinstance(suspended, Suspended)
    assert "at most" in suspended.why
    assert "narrower range" in suspended.why
    assert kinds(bench.facts(2)) == [Upsert] * 7
    # Whoever comes is told so too.
    bench.open(3)
    assert kinds(bench.subscribed(NONE, 3)) == [Subscribed, Suspended]


def test_it_is_told_again_once_it_takes_less_with_all_that_changed_meanwhile(bench: Joined) -> None:
    assert kinds(bench.subscribed(FEW)) == [Subscribed, Snapshot]
    assert bench.state is not None
    heartbeat = bench.state.rules.heartbeat
    acknowledge(bench)
    bench.put("items", *range(2, 10))
    assert kinds(bench.facts()) == [Suspended]
    bench.wait(heartbeat)
    bench.put("others", 20)
    bench.wait(heartbeat)
    assert not bench.facts()
    bench.append(bench.rows("items", 1, gone=True))
    small_again(bench)
    bench.append(bench.rows("others", 20, gone=True))
    bench.wait(heartbeat)
    resumed, whole = bench.facts()
    assert isinstance(resumed, Resumed)
    assert isinstance(whole, Snapshot)
    assert whole.count == 1
    bench.put("items", 5)
    assert kinds(bench.facts()) == [Upsert]
    bench.append(bench.rows("items", 5, gone=True))
    assert kinds(bench.facts()) == [Delete]


@pytest.mark.parametrize("doubted_first", [False, True])
def test_two_reasons_must_both_be_gone(bench: Joined, doubted_first: bool) -> None:
    assert kinds(bench.subscribed(FEW)) == [Subscribed, Snapshot]
    [number] = bench.engine.registrations
    assert bench.state is not None
    heartbeat = bench.state.rules.heartbeat
    doubted = QueriesSuspended((number,), "nobody hears of a source")
    if doubted_first:
        bench.do(doubted)
    bench.put("items", *range(2, 10))
    assert number in joins(bench.engine.host).halted
    if not doubted_first:
        bench.do(doubted)
    bench.facts()
    if doubted_first:
        # It is not followed yet.
        bench.do(QueriesResumed((number,)))
        assert kinds(bench.facts()) == [Suspended]
    small_again(bench)
    bench.wait(heartbeat)
    if not doubted_first:
        assert Resumed not in kinds(bench.facts())
        bench.do(QueriesResumed((number,)))
    resumed, whole = bench.facts()
    assert isinstance(resumed, Resumed)
    assert isinstance(whole, Snapshot)
    assert whole.count == 2


def test_sessions_that_begin_later_know_it_is_suspended(bench: Joined) -> None:
    """As after a replay, in which nobody was told."""
    bench.subscribed(NONE)
    bench.put("items", *range(2, 10))
    bench.state = ServerState("n", 4, SessionRules(), bench.engine)
    for event in bench.engine.registered():
        bench.do(event)
    bench.take()
    bench.open(9)
    assert kinds(bench.subscribed(NONE, 9)) == [Subscribed, Suspended]


def test_what_a_node_allows_is_kept_by_a_snapshot() -> None:
    again = NodeEngine()
    again.restore(NodeEngine().snapshot())
    assert joins(again.host).most_steps == MOST_STEPS
