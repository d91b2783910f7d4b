"""What is due and what can be relied on, without a socket."""

import pytest

from slackwater.aggregator.pull.pull_state import PulledState, kept_by_operators
from slackwater.core import Aggregate, AggregateFunction, Bound, Weight
from slackwater.planning.pulling.published.fixed_interval import FixedInterval
from slackwater.planning.pulling.uncertainty import Uncertainty

SECOND = 1_000_000


def total(within: float, *keys: str, function: AggregateFunction = AggregateFunction.SUM) -> Aggregate:
    weights = tuple(Weight((key,), 2.0) for key in keys)
    return Aggregate("quotes", function, "price", Bound(within, 0.9), weights=weights)


def keys(query: Aggregate) -> list[tuple[str]]:
    return [(str(weight.key[0]),) for weight in query.weights or ()]


@pytest.fixture
def state() -> PulledState:
    return PulledState("quotes", ["A", "B", "C"], FixedInterval(3, every=4), SECOND)


def test_only_what_a_query_needs_is_asked_for(state: PulledState) -> None:
    assert state.due(0) == []
    query = total(4.0, "A", "B")
    state.register(7, query, keys(query))
    assert state.due(0) == ["A", "B"]
    assert state.due(0) == [], "they are under way"
    assert state.doubt("A") is not None
    state.got(0, "A", 1.0)
    state.got(0, "B", 2.0)
    assert state.doubt("A") is None
    assert state.wake(SECOND) == 4 * SECOND
    assert state.due(4 * SECOND) == ["A", "B"]
    state.same(4 * SECOND, "A")
    assert state.pulls.by_query == {7: 4}
    state.unregister(7)
    assert state.due(9 * SECOND) == []


def test_an_item_that_cannot_be_had_is_tried_again_when_its_time_has_come(state: PulledState) -> None:
    query = total(4.0, "A")
    state.register(1, query, keys(query))
    assert state.due(0) == ["A"]
    state.missed(0, "A", "it burns", again=3.0)
    assert state.doubt("A") == "A of quotes could not be had: it burns"
    assert state.lost == ("A",)
    assert state.due(2 * SECOND) == []
    assert state.wake(2 * SECOND) == 3 * SECOND
    assert state.due(3 * SECOND) == ["A"]
    state.got(3 * SECOND, "A", 5.0)
    assert state.doubt("A") is None
    assert not state.lost


def test_the_two_parts_of_a_bound_are_the_bound(state: PulledState) -> None:
    query = total(8.0, "A")
    state.register(1, query, keys(query))
    pulling = state.scheduler.queries["1"].bound.within  # type: ignore[attr-defined]
    assert pulling + kept_by_operators(query).bound.within == 8.0
    assert state.scheduler.queries["1"].weights == (2.0,)  # type: ignore[attr-defined]


def test_an_average_weighs_its_items_by_their_number(state: PulledState) -> None:
    query = total(8.0, "A", "B", function=AggregateFunction.AVG)
    state.register(1, query, keys(query))
    assert state.scheduler.queries["1"].weights == (1.0, 1.0)  # type: ignore[attr-defined]


def test_what_was_learnt_outlives_a_restart_with_the_same_queries() -> None:
    def made() -> PulledState:
        return PulledState("quotes", ["A", "B"], Uncertainty(2, longest=10), SECOND)

    first, query = made(), total(4.0, "A", "B")
    first.register(7, query, keys(query))
    for tick in range(40):
        for key in first.due(tick * SECOND):
            first.got(tick * SECOND, key, float(tick))
    body = first.saved(40 * SECOND)
    again, other = made(), made()
    again.register(7, query, keys(query))
    assert again.recall(body, 0)
    assert again.scheduler.snapshot() == first.scheduler.snapshot()
    again.due(0)
    assert not other.recall(b"damaged", 0)


def test_with_other_queries_items_keep_their_models_and_their_past() -> None:
    first, query = PulledState("quotes", ["A", "B"], Uncertainty(2, longest=10), SECOND), total(4.0, "A", "B")
    first.register(7, query, keys(query))
    for tick in range(200):
        for key in first.due(tick * SECOND):
            first.got(tick * SECOND, key, float(tick % 7))
    other = PulledState("quotes", ["C", "B"], Uncertainty(2, longest=10), SECOND)
    other.register(8, query := total(4.0, "B", "C"), keys(query))
    assert other.recall(first.saved(200 * SECOND), 0)
    ours, theirs = first.scheduler.models[1], other.scheduler.models[1]  # type: ignore[attr-defined]
    assert (theirs.learnt, theirs.scale, theirs.score) == (ours.learnt, ours.scale, ours.score)
    assert other.scheduler.models[0].learnt == 0, "C is new"  # type: ignore[attr-defined]
    assert 8 in other.unpriced
    trial = other.trial(query, keys(query))
    assert trial is not None
    assert {one.name: len(one.pulls) > 20 for one in trial.memories} == {"B": True, "C": False}
    assert other.due(0) == ["C", "B"], "what happened meanwhile is not known"
    other.got(0, "B", 3.0)
    assert theirs.learnt == ours.learnt, "and teaches nothing"
    strange = PulledState("quotes", ["X"], Uncertainty(1, longest=10), SECOND)
    assert not strange.recall(first.saved(200 * SECOND), 0)


def test_pulls_an_hour_are_counted_from_the_first_pull_on() -> None:
    state, query = PulledState("quotes", ["A"], FixedInterval(1, every=4), SECOND), total(4.0, "A")
    state.register(7, query, keys(query))
    for tick in range(100, 220):
        for key in state.due(tick * SECOND):
            state.got(tick * SECOND, key, 1.0)
        if tick == 120:
            assert state.rate(7, tick * SECOND) is None, "too early"
    assert state.rate(7, 220 * SECOND) == pytest.approx(30 * 3600 / 120)
    state.unregister(7)
    assert state.rate(7, 220 * SECOND) is None
