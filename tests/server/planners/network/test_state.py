"""When a query is planned, when it is planned anew, and when it is not."""

from dataclasses import replace

import numpy as np
import pytest

from slackwater.core.bound import Bound
from slackwater.core.errors import PlanningError
from slackwater.core.query import Aggregate, AggregateFunction, Weight
from slackwater.planning.aggregation import ScaleFreeCost
from slackwater.planning.aggregation.held_cost import held_messages
from slackwater.planning.aggregation.movement import MovementModel
from slackwater.server.planners.network.base import (
    HERE,
    AggregatorReport,
    Instruction,
    NetworkRules,
    Replan,
    Resume,
    Suspend,
)
from slackwater.server.planners.network.explain import explained, figures_of
from slackwater.server.planners.network.state import ClientReport, NetworkState

SECOND = 1_000_000
COLUMN = ("quotes", "price")
RULES = NetworkRules(window=10 * SECOND, lost_after=5 * SECOND, unheld=False)
PATIENT = NetworkRules(window=10 * SECOND, lost_after=60 * SECOND, unheld=False)


def query(within: float = 10.0, *symbols: str) -> Aggregate:
    weights = tuple(Weight((symbol,), 1.0) for symbol in symbols or ("A", "B", "C"))
    return Aggregate("quotes", AggregateFunction.SUM, "price", Bound(within), weights=weights)


def text_of(part: Aggregate) -> str:
    return f"{[weight.key[0] for weight in part.weights or ()]} within {part.bound.within!r}"


def heard(*symbols: str, within: float = 1.0, generation: int = 1, **counts: int) -> AggregatorReport:
    return AggregatorReport(generation, {COLUMN: {(symbol,): within for symbol in symbols}}, None, counts)


def network(rules: NetworkRules = RULES, **held: str) -> NetworkState:
    """Aggregators by name, with the items they hold; all were heard of at 0."""
    state = NetworkState(held, rules, MovementModel(), text_of)
    for name, symbols in held.items():
        assert state.heard(name, heard(*symbols), 0) == []
    return state


def keep_alive(state: NetworkState, now: int, *names: str) -> list[Instruction]:
    out: list[Instruction] = []
    for name in names:
        known = state.aggregators[name].heard
        assert known is not None
        out += state.heard(name, known, now)
    return out


def test_a_query_is_planned_when_it_is_registered() -> None:
    state = network(one="ABC", two="AB")
    assert state.registered(7, 0, query(), 0) == []
    plan = state.queries[7].plan
    assert plan is not None
    assert [(part.aggregator, part.items) for part in plan.parts] == [("one", ("A", "B", "C"))]
    assert plan.parts[0].within == 10.0


def test_where_there_is_no_plan_the_tightest_bound_is_said() -> None:
    state = network(one="AB", two="BC")
    [said] = state.registered(7, 0, query(2.5), 0)
    assert isinstance(said, Suspend)
    assert "no plan keeps less than 3" in said.why
    # It is tried again when more can be used, under another epoch, and not before.
    assert keep_alive(state, SECOND, "one", "two") == []
    closer = AggregatorReport(1, {COLUMN: {("B",): 0.1, ("C",): 0.1}})
    assert state.heard("two", closer, 2 * SECOND) == [Replan(7, 1)]
    assert state.registered(7, 1, query(2.5), 3 * SECOND) == [Resume(7)]


def test_a_query_whose_rights_were_changed_is_planned_anew() -> None:
    state = network(one="ABC", two="AB")
    assert state.registered(7, 0, query(), 0) == []
    [said] = state.registered(7, 1, query(10.0, "A", "B"), SECOND)
    assert isinstance(said, Suspend)
    assert keep_alive(state, 2 * SECOND, "one", "two") == [Replan(7, 2)]
    assert state.registered(7, 2, query(10.0, "A", "B"), 3 * SECOND) == [Resume(7)]


def test_a_plan_is_not_put_in_force_for_another_query_of_its_epoch() -> None:
    state = network(one="AB", two="BC")
    [_] = state.registered(7, 0, query(2.5), 0)
    closer = AggregatorReport(1, {COLUMN: {("B",): 0.1, ("C",): 0.1}})
    assert state.heard("two", closer, SECOND) == [Replan(7, 1)]
    # The rights of its owner were changed at the same time, and came first in the log.
    restricted = query(2.5, "A", "B")
    assert Resume(7) not in state.registered(7, 1, restricted, 2 * SECOND)
    assert [one.plan for one in state.queries.values()] == [None]
    assert keep_alive(state, 3 * SECOND, "one", "two") == [Replan(7, 2)]
    assert state.registered(7, 2, restricted, 4 * SECOND) == [Resume(7)]
    plan = state.queries[7].plan
    assert plan is not None
    assert {item for part in plan.parts for item in part.items} == {"A", "B"}


def test_what_nobody_holds_closely_enough_is_asked_of_the_node_where_that_is_allowed() -> None:
    state = network(NetworkRules(lost_after=5 * SECOND), one="AB")
    assert state.registered(7, 0, query(2.5), 0) == []
    plan = state.queries[7].plan
    assert plan is not None
    assert sorted((part.aggregator, part.items) for part in plan.parts) == [(HERE, ("C",)), ("one", ("A", "B"))]
    assert state.registered(8, 0, query(1.5), 0) == []
    plan = state.queries[8].plan
    assert plan is not None
    assert [part.items for part in plan.parts if part.aggregator == "one"] == [("B",)]
    here = next(part.query for part in plan.parts if part.aggregator == HERE)
    assert state.kept_here(here)
    assert not state.kept_here(query(1.5))


def test_a_lost_aggregator_is_planned_around_at_once_and_only_once() -> None:
    state = network(one="ABC", two="AB", three="BC")
    state.registered(7, 0, query(), 0)
    assert keep_alive(state, 4 * SECOND, "two", "three") == []
    assert keep_alive(state, 5 * SECOND, "two", "three") == [Replan(7, 1)]
    assert keep_alive(state, 6 * SECOND, "two", "three") == [], "it was asked for"
    assert state.registered(7, 1, query(), 7 * SECOND) == []
    plan = state.queries[7].plan
    assert plan is not None
    assert {part.aggregator for part in plan.parts} == {"two", "three"}
    # It is back: the plan stays as it is until the windows between two plans are over.
    assert keep_alive(state, 8 * SECOND, "one", "two", "three") == []
    now = 8 * SECOND
    said: list[Instruction] = []
    while not said:
        now += SECOND
        assert now < 200 * SECOND
        said = keep_alive(state, now, "one", "two", "three")
    assert said == [Replan(7, 2)]
    assert 7 * SECOND + RULES.windows_between * RULES.window <= now <= 7 * SECOND + 12 * RULES.window


def test_an_aggregator_that_cannot_vouch_for_its_items_is_lost_too() -> None:
    state = network(one="ABC", two="ABC")
    state.registered(7, 0, query(), 0)
    plan = state.queries[7].plan
    assert plan is not None
    used, other = ("one", "two") if plan.parts[0].aggregator == "one" else ("two", "one")
    doubtful = AggregatorReport(1, heard("A", "B", "C").held, "its upstream is gone")
    for second in range(1, 5):
        assert state.heard(used, doubtful, second * SECOND) == []
        assert keep_alive(state, second * SECOND, other) == []
    assert keep_alive(state, 5 * SECOND, other) == [Replan(7, 1)]


def test_an_aggregator_at_another_address_is_told_under_another_epoch() -> None:
    state = network(one="ABC", two="AB")
    state.registered(7, 0, query(), 0)
    state.moved("two")
    assert keep_alive(state, SECOND, "one", "two") == []
    state.moved("one")
    assert keep_alive(state, SECOND, "one", "two") == [Replan(7, 1)]
    assert state.registered(7, 1, query(), 2 * SECOND) == []
    assert keep_alive(state, 3 * SECOND, "one", "two") == []


def test_a_lost_registration_is_asked_for_again_and_a_late_one_changes_nothing() -> None:
    state = network(one="ABC", two="AB", three="BC")
    state.registered(7, 0, query(), 0)
    assert keep_alive(state, 3 * SECOND, "two", "three") == []
    assert keep_alive(state, 5 * SECOND, "two", "three") == [Replan(7, 1)]
    assert keep_alive(state, 8 * SECOND, "two", "three") == []
    assert keep_alive(state, 10 * SECOND, "two", "three") == [Replan(7, 1)]
    state.registered(7, 1, query(), 11 * SECOND)
    plan = state.queries[7].plan
    state.unregistered(7)
    assert keep_alive(state, 30 * SECOND, "two", "three") == []
    assert plan is not None


def test_after_a_restart_a_query_is_planned_under_the_next_epoch_when_all_were_heard() -> None:
    state = NetworkState(["one", "two"], RULES, MovementModel(), text_of)
    [said] = state.registered(7, 4, query(), 0, restored=True)
    assert isinstance(said, Suspend)
    assert state.heard("one", heard("A", "B", "C"), SECOND) == [], "the other has had no time to answer"
    assert state.silent("two", "nobody is there", 2 * SECOND) == []
    assert keep_alive(state, 6 * SECOND, "one") == [Replan(7, 5)]


def test_counts_that_leave_the_prediction_have_a_query_planned_anew_once_in_ten_windows() -> None:
    state = network(PATIENT, one="AB", two="CD")
    asked = query(40.0, "A", "B", "C", "D")
    state.registered(7, 0, asked, 0)
    one = state.queries[7]
    now = 0
    sent = {"one": 0.0, "two": 0.0}
    reviews: list[int] = []
    for window in range(1, 60):
        assert one.plan is not None
        now += RULES.window
        before, said = one.reviews, []
        for part in one.plan.parts:
            # A and B move so that they send about 200 in a window under the first plan, C and D hardly.
            moves = 7e6 if part.aggregator == "one" else 3e4
            hourly = held_messages(
                ScaleFreeCost(), 2 * moves, part.within, np.array([moves, moves]), np.array(part.floors)
            )
            sent[part.aggregator] += hourly * RULES.window / (3600 * SECOND)
            held = "AB" if part.aggregator == "one" else "CD"
            said += state.heard(part.aggregator, heard(*held, **{part.text: int(sent[part.aggregator])}), now)
        for instruction in said:
            assert isinstance(instruction, Replan)
            state.registered(7, instruction.epoch, asked, now)
        if one.reviews > before:
            reviews.append(window)
    assert reviews, "two hundred messages in ten seconds were not predicted"
    assert all(later - earlier >= RULES.windows_between for earlier, later in zip([0, *reviews], reviews, strict=False))
    assert one.replans >= 1
    assert one.plan is not None
    bounds = {part.aggregator: part.within for part in one.plan.parts}
    assert bounds["one"] > 2 * bounds["two"], "the restless part has most of the bound"
    assert sum(bounds.values()) <= 40.0
    assert len(reviews) <= 3, (
        "once believed (one count corrects no more than a thousandfold), what is predicted is counted"
    )
    assert one.watch is not None
    assert one.watch.measured == pytest.approx(sum(one.watch.predicted), rel=0.1)
    drawn = explained(state, asked, one)
    told = {detail.name: detail.value for detail in drawn.details}
    assert told["expected"] == pytest.approx(sum(one.watch.predicted), rel=1e-3), "what is believed now"
    assert figures_of(state, one).predicted == told["expected"]
    alternatives = {detail.name: detail.value for detail in drawn.parts[-1].details}
    assert alternatives["exact"] == pytest.approx(told["expected"], rel=0.05), "they go by the same beliefs"


def test_a_plan_that_saves_little_is_not_put_in_force() -> None:
    state = network(PATIENT, one="ABC", two="ABC")
    state.registered(7, 0, query(), 0)
    one = state.queries[7]
    now = total = 0
    for _ in range(40):
        now += RULES.window
        total += 50
        assert one.plan is not None
        part = one.plan.parts[0]
        other = "two" if part.aggregator == "one" else "one"
        assert state.heard(other, heard("A", "B", "C"), now) == []
        assert state.heard(part.aggregator, heard("A", "B", "C", **{part.text: total}), now) == []
    assert one.reviews >= 1
    assert (one.epoch, one.replans) == (0, 0), "one part at one aggregator cannot be bettered"
    assert one.watch is not None
    assert one.watch.measured is not None
    assert abs(one.watch.measured - 50 * 360) < 50


def test_what_clients_report_is_added_up_and_forgotten_with_the_query() -> None:
    state = network(one="ABC")
    state.registered(7, 0, query(), 0)
    state.reported(7, ClientReport(10.0, 1.0, 5, 3))
    state.reported(7, ClientReport(10.0, 0.0, 5, 0))
    state.reported(8, ClientReport(10.0, 0.0, 5, 0))
    assert state.seen == {7: ClientReport(20.0, 1.0, 10, 3)}
    state.unregistered(7)
    assert state.seen == {}


def extreme(within: float, *factors: float) -> Aggregate:
    weights = tuple(Weight((symbol,), factor) for symbol, factor in zip("ABC", factors, strict=False))
    return replace(query(within), weights=weights)


@pytest.mark.filterwarnings("ignore:overflow encountered", "ignore:invalid value encountered")
@pytest.mark.parametrize("unheld", [False, True])
@pytest.mark.parametrize(
    "asked",
    [
        *(query(within) for within in (1e200, 1e300, 1.7e308, 1e-200, 5e-324)),
        *(extreme(10.0, factor, 1.0, -1.0) for factor in (1e160, 1.7e308, 1e-200, 5e-324)),
        extreme(1e300, 1e300, 1e300, 1e-300),
        replace(extreme(10.0, 1e200, 1.0), scale=1e200),
    ],
)
@pytest.mark.parametrize("within", [0.0, 1.0, 1e300])
def test_a_query_of_any_numbers_is_planned_or_suspended_and_explained(
    asked: Aggregate, unheld: bool, within: float
) -> None:
    state = NetworkState(["one"], replace(RULES, unheld=unheld), MovementModel(), text_of)
    state.heard("one", heard("A", "B", "C", within=within), 0)
    said = state.registered(7, 0, asked, 0)
    planned = state.queries[7]
    assert (planned.plan is None) == any(isinstance(one, Suspend) for one in said)
    assert explained(state, asked).name == explained(state, asked, planned).name == "plan"
    # What an earlier life has registered is planned as soon as somebody was heard of.
    again = NetworkState(["one"], RULES, MovementModel(), text_of)
    assert len(again.registered(7, 0, asked, 0, restored=True)) == 1
    again.heard("one", heard("A", "B", "C", within=within), 1)


@pytest.mark.parametrize("error", [OverflowError("too large"), ValueError("no number"), PlanningError("nothing")])
def test_a_plan_that_cannot_be_made_is_said_and_tried_again_when_more_can_be_used(
    error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = network(one="ABC", two="AB")

    def fail(*_: object) -> None:
        raise error

    with monkeypatch.context() as broken:
        broken.setattr(state.drafter, "plan", fail)
        [said] = state.registered(7, 0, query(), 0)
        assert said == Suspend(7, f"there is no plan for this query: {error}")
        assert keep_alive(state, SECOND, "one", "two") == []
    assert state.heard("two", heard("A", "B", "C"), 2 * SECOND) == [Replan(7, 1)]
    assert state.registered(7, 1, query(), 3 * SECOND) == [Resume(7)]


@pytest.mark.parametrize("what", ["plan", "expected"])
def test_a_plan_stays_where_none_can_be_made_in_its_stead(what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    state = network(one="ABC", two="AB")
    state.registered(7, 0, query(), 0)
    plan = state.queries[7].plan
    state.heard("two", heard("A", "B", "C"), SECOND)
    failed = []

    def fail(*_: object) -> None:
        failed.append(what)
        raise OverflowError("too large")

    monkeypatch.setattr(state.drafter, what, fail)
    for second in range(2, 300):
        assert keep_alive(state, second * SECOND, "one", "two") == []
    assert state.queries[7].plan is plan
    assert failed == [what], "it is not tried again before anything is another"


def test_what_is_held_loosely_gets_more_of_the_bound() -> None:
    """A and B are believed to move alike; as if both were known exactly each would get half."""
    state = network(one="", two="")
    assert state.heard("one", heard("A", within=1.0), 0) == []
    assert state.heard("two", heard("B", within=0.1), 0) == []
    state.registered(7, 0, query(10.0, "A", "B"), 0)
    plan = state.queries[7].plan
    assert plan is not None
    bounds = {part.aggregator: part.within for part in plan.parts}
    # Spent are 1 − ½·1 and 0.1 − ½·0.1, and the rest is shared out equally.
    assert bounds == pytest.approx({"one": 0.5 + 4.725, "two": 0.05 + 4.725})
