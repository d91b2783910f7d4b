"""The planners on cases that can be worked out by hand."""

import numpy as np
import pytest

from experiments.plans.consistent_cost import ConsistentCost
from experiments.plans.following_alpha import FollowingAlpha
from slackwater.core.errors import Infeasible, PlanningError
from slackwater.planning.aggregation import (
    Dynamics,
    Exact,
    MaxGain,
    MinCost,
    MostSaved,
    Naive,
    Offer,
    OptC,
    Predecided,
    PrintedCost,
    Problem,
    ScaleFreeCost,
    SumQuery,
)

OFFERS = (Offer("D1", {"S1": 0.5, "S3": 0.2}), Offer("D2", {"S1": 1.0, "S2": 0.1, "S4": 0.2}))
QUERY = SumQuery(("S1", "S2", "S3"), (50.0, 200.0, 150.0), within=80.0)


def moving(sumdiff: list[float], pairs: dict[tuple[int, int], float] | None = None) -> Dynamics:
    similarity = np.eye(len(sumdiff))
    for (one, other), rho in (pairs or {}).items():
        similarity[one, other] = similarity[other, one] = rho
    return Dynamics(tuple(f"S{place + 1}" for place in range(len(sumdiff))), np.array(sumdiff), similarity)


def worked_example() -> Problem:
    """S1 and S2 cancel, so that by movement alone they belong together, where the floors do not fit."""
    return Problem(QUERY, OFFERS, moving([4.0, 1.0, 1.0], {(0, 1): -0.9}), ScaleFreeCost())


def test_the_worked_example_has_one_feasible_cut_into_two() -> None:
    problem = worked_example()
    plan = Exact()(problem)
    assert {(part.aggregator, part.items) for part in plan.parts} == {("D1", ("S1", "S3")), ("D2", ("S2",))}
    assert sum(part.floor for part in plan.parts) == pytest.approx(75.0)
    assert problem.tightest == pytest.approx(75.0)


@pytest.mark.parametrize("planner", [MinCost, MaxGain])
def test_alpha_finds_the_plan_that_movement_alone_misses(planner: type[MinCost] | type[MaxGain]) -> None:
    problem = worked_example()
    with pytest.raises(Infeasible, match="keep 100; there are plans down to 75") as refused:
        planner()(problem)
    assert refused.value.tightest == pytest.approx(75.0)
    assert sum(part.floor for part in planner(alpha=1000.0)(problem).parts) == pytest.approx(75.0)


def test_three_items_of_ones_cost_a_third() -> None:
    query = SumQuery(("S1", "S2", "S3"), (1.0, 1.0, 1.0), within=3.0)
    offers = (Offer("D", {"S1": 0.0, "S2": 0.0, "S3": 0.0}),)
    problem = Problem(query, offers, moving([1.0, 1.0, 1.0]), ConsistentCost())
    assert Exact()(problem).messages == pytest.approx(1 / 3)
    assert Naive()(problem).messages == pytest.approx(3.0)


def test_each_pair_counts_once_and_twice_in_print() -> None:
    query = SumQuery(("S1", "S2"), (2.0, 3.0), within=1.0)
    offers = (Offer("D", {"S1": 0.0, "S2": 0.0}),)
    right = Problem(query, offers, moving([1.0, 2.0], {(0, 1): 0.5}), ConsistentCost())
    raw, norm = right.sizes(0b11)
    assert raw[0] ** 2 == pytest.approx(4 + 36 + 2 * 0.5 * 2 * 6)
    assert norm[0] ** 2 == pytest.approx(4 + 9 + 2 * 0.5 * 2 * 3)
    printed = Problem(query, offers, right.dynamics, PrintedCost())
    assert printed.sizes(0b11)[0][0] ** 2 == pytest.approx(4 + 36 + 4 * 0.5 * 2 * 6)


def test_items_that_cancel_or_rest_divide_by_nothing() -> None:
    offers = (Offer("D", {"S1": 0.01, "S2": 0.01, "S3": 0.01}), Offer("E", {"S1": 0.02, "S3": 0.001}))
    query = SumQuery(("S1", "S2", "S3"), (1.0, 1.0, 1.0), within=1.0)
    for model in (ConsistentCost(), PrintedCost(), ScaleFreeCost()):
        cancelling = Problem(query, offers, moving([1.0, 1.0, 0.0], {(0, 1): -1.0}), model)
        for planner in (Exact(), MinCost(alpha=3.0), MaxGain(alpha=3.0), OptC()):
            plan = planner(cancelling)
            assert all(np.isfinite(part.within) for part in plan.parts)
            assert np.isfinite(plan.messages)
        assert Exact()(cancelling).messages == 0.0


def test_many_items_are_planned_without_tables() -> None:
    count = 60
    items = tuple(f"S{place + 1}" for place in range(count))
    generator = np.random.default_rng(12)
    offers = tuple(
        Offer(f"D{number}", dict.fromkeys(generator.choice(items, 20, replace=False), 0.001)) for number in range(30)
    )
    problem = Problem(SumQuery(items, (1.0,) * count, 10.0), offers, moving([1.0] * count), ScaleFreeCost())
    apart, together = OptC()(problem), MaxGain()(problem)
    assert together.messages < apart.messages / 3
    assert sorted(item for part in together.parts for item in part.items) == sorted(items)


def test_bounds_decided_beforehand_are_kept_and_only_near_aggregators_count() -> None:
    problem = Problem(QUERY, OFFERS, moving([1.0, 1.0, 1.0]), ConsistentCost())
    plan = Predecided({"S1": 0.6, "S2": 0.1, "S3": 0.2})(problem)
    assert {part.aggregator: part.within for part in plan.parts} == {"D1": 60.0, "D2": 20.0}
    with pytest.raises(Infeasible, match="within the bound decided"):
        Predecided({"S1": 0.4, "S2": 0.1, "S3": 0.2})(problem)
    with pytest.raises(PlanningError, match="add up to"):
        Predecided({"S1": 0.6, "S2": 0.2, "S3": 0.2})(problem)
    with pytest.raises(PlanningError, match="no bound was decided for S3"):
        Predecided({"S1": 0.6, "S2": 0.2})(problem)


def test_alpha_settles_where_the_target_is_met() -> None:
    """Plans are found more often with a larger α; here with probability α/(1 + α)."""
    generator = np.random.default_rng(13)
    following = FollowingAlpha(target=0.9)
    found = []
    for _ in range(4000):
        found.append(generator.random() < following.alpha / (1 + following.alpha))
        following = following.after(found=bool(found[-1]))
    assert np.mean(found[500:]) == pytest.approx(0.9, abs=0.02)


def test_queries_and_offers_that_cannot_be_are_refused() -> None:
    with pytest.raises(PlanningError, match="one weight for each"):
        SumQuery(("a",), (1.0, 2.0), 1.0)
    with pytest.raises(PlanningError, match="each item once"):
        SumQuery(("a", "a"), (1.0, 2.0), 1.0)
    with pytest.raises(PlanningError, match="not 0"):
        SumQuery(("a",), (0.0,), 1.0)
    with pytest.raises(PlanningError, match="above 0"):
        SumQuery(("a",), (1.0,), 0.0)
    with pytest.raises(PlanningError, match="no bound"):
        Offer("D", {"a": float("nan")})
    with pytest.raises(PlanningError, match="learn its statistics"):
        Exact()(Problem(SumQuery(("S9",), (1.0,), 1.0), (Offer("D", {"S9": 0.0}),), moving([1.0]), ScaleFreeCost()))


def test_queries_of_more_items_than_a_machine_word_has_bits() -> None:
    items = tuple(f"S{place + 1}" for place in range(70))
    offers = (Offer("all", dict.fromkeys(items, 0.0)), Offer("last", {items[-1]: 0.0}))
    problem = Problem(SumQuery(items, (1.0,) * 70, 1.0), offers, moving([1.0] * 70), ScaleFreeCost())
    assert problem.held == (2**70 - 1, 2**69)
    assert [part.aggregator for part in MinCost()(problem).parts] == ["all"]


def test_a_gain_for_each_item_would_rather_have_four_than_all_ten() -> None:
    """(√n − 1)/n of n like items is larger for 4 than for 10; Σ of the roots is not."""
    items = tuple(f"S{place + 1}" for place in range(10))
    offers = (Offer("four", dict.fromkeys(items[:4], 0.0)), Offer("all", dict.fromkeys(items, 0.0)))
    problem = Problem(SumQuery(items, (1.0,) * 10, 1.0), offers, moving([1.0] * 10), ScaleFreeCost())
    assert [part.aggregator for part in MaxGain()(problem).parts] == ["four", "all"]
    for planner in (MaxGain(per_item=False), MostSaved(), Exact()):
        assert [part.aggregator for part in planner(problem).parts] == ["all"]
    # Σ of cube roots of raw², cubed: once over all ten, and over four and six.
    assert Exact()(problem).messages == pytest.approx(10.0)
    assert MaxGain()(problem).messages == pytest.approx((4 ** (1 / 3) + 6 ** (1 / 3)) ** 3)
