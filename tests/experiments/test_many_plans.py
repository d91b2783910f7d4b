"""Many queries: shared parts are found, and a bound that is shared is kept for everybody."""

import numpy as np
import pytest

from experiments.plans.many import likeness, plan_all
from slackwater.core.errors import Infeasible
from slackwater.planning.aggregation import (
    Dynamics,
    Exact,
    MaxGain,
    NetworkPlan,
    Offer,
    Problem,
    ScaleFreeCost,
    SumQuery,
)

ITEMS = ("a", "b", "c")
OFFERS = (Offer("D", {"a": 0.01, "b": 0.01}), Offer("E", {"c": 0.01}))
MOVING = Dynamics(ITEMS, np.array([1.0, 2.0, 3.0]), np.eye(3))


def test_parts_in_the_same_proportion_are_shared_within_the_tightest_bound() -> None:
    queries = [
        SumQuery(("a", "b", "c"), (1.0, 2.0, 1.0), 1.0),
        SumQuery(("b", "a"), (-4.0, -2.0), 1.0),
        SumQuery(("a", "b"), (1.0, 3.0), 1.0),
        SumQuery(("a", "c"), (1.0, 1.0), 0.001),
    ]
    found = plan_all(queries, OFFERS, MOVING, ScaleFreeCost(), Exact())
    assert [isinstance(plan, NetworkPlan) for plan in found.plans] == [True, True, True, False]
    assert isinstance(found.plans[3], Infeasible)
    assert found.plans[3].tightest == pytest.approx(0.02)
    (shared,) = found.shared
    assert (shared.aggregator, shared.items, shared.weights) == ("D", ("a", "b"), (1.0, 2.0))
    assert shared.users == ((0, 1.0), (1, -2.0))
    for number, scale in shared.users:
        plan = found.plans[number]
        assert isinstance(plan, NetworkPlan)
        (part,) = (part for part in plan.parts if likeness(part)[0][1] == ("a", "b"))
        assert shared.within * abs(scale) <= part.within * (1 + 1e-12)


def test_each_plan_is_what_the_planner_says_by_itself() -> None:
    queries = [SumQuery(ITEMS, (1.0, 1.0, float(weight)), 2.0) for weight in range(1, 5)]
    together = plan_all(queries, OFFERS, MOVING, ScaleFreeCost(), MaxGain())
    apart = [plan_all([query], OFFERS, MOVING, ScaleFreeCost(), MaxGain()).plans[0] for query in queries]
    assert list(together.plans) == apart
    assert len(together.shared[0].users) == 4


@pytest.mark.parametrize("floors_take", [False, True])
def test_floors_take_from_the_bound_where_that_is_asked(floors_take: bool) -> None:
    query = SumQuery(ITEMS, (1.0, 1.0, 1.0), 0.06)
    (plan,) = plan_all([query], OFFERS, MOVING, ScaleFreeCost(), Exact(), floors_take=floors_take).plans
    assert plan == Exact()(Problem(query, OFFERS, MOVING, ScaleFreeCost(), floors_take))
    assert plan != Exact()(Problem(query, OFFERS, MOVING, ScaleFreeCost(), not floors_take))
