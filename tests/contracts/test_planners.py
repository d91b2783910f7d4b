"""Every planner keeps the contract of `planning.aggregation.base`, and none is better than the exact one."""

import math
from collections.abc import Callable

import numpy as np
import pytest

from slackwater.core.errors import Infeasible
from slackwater.planning.aggregation import (
    CostModel,
    Drawn,
    Exact,
    Exhaustive,
    MaxGain,
    MinCost,
    MostSaved,
    Naive,
    NetworkPlan,
    OptC,
    Planner,
    Predecided,
    Problem,
)
from tests.support.networks import MODELS, problem

PLANNERS: dict[str, Callable[[], Planner]] = {
    "naive": Naive,
    "optc": OptC,
    "random": lambda: Drawn(np.random.default_rng(5)),
    "min-cost": MinCost,
    "min-cost, α 10": lambda: MinCost(alpha=10.0),
    "max-gain": MaxGain,
    "max-gain, α 10": lambda: MaxGain(alpha=10.0),
    "max-gain, undivided": lambda: MaxGain(per_item=False),
    "most-saved": MostSaved,
    "pre-decided": Predecided,
    "exact": Exact,
    "exhaustive": Exhaustive,
}


def check(problem: Problem, plan: NetworkPlan) -> None:
    """The promises 1 to 4."""
    query = problem.query
    placed = [(item, weight) for part in plan.parts for item, weight in zip(part.items, part.weights, strict=True)]
    assert sorted(placed) == sorted(zip(query.items, query.weights, strict=True))
    offers = {offer.aggregator: offer for offer in problem.offers}
    for part in plan.parts:
        held = offers[part.aggregator].within
        floor = sum(abs(weight) * held[item] for item, weight in zip(part.items, part.weights, strict=True))
        assert part.floor == pytest.approx(floor)
        assert part.within >= floor * (1 - 1e-9)
    assert sum(part.within for part in plan.parts) <= query.within * (1 + 1e-9)


@pytest.mark.parametrize("floors_take", [False, True], ids=["", "floors take"])
@pytest.mark.parametrize("name", PLANNERS)
@pytest.mark.parametrize("model", MODELS, ids=repr)
def test_plans_keep_their_promises_and_are_never_better_than_the_exact_one(
    name: str, model: CostModel, floors_take: bool
) -> None:
    generator = np.random.default_rng(11)
    planner, found, refused = PLANNERS[name](), 0, 0
    said: list[tuple[float, float]] = []
    for _ in range(40):
        items, aggregators = int(generator.integers(1, 7)), int(generator.integers(1, 6))
        case = problem(generator, items, aggregators, model, floors_take=floors_take)
        try:
            plan = planner(case)
        except Infeasible as error:
            refused += 1
            said.append((error.tightest, case.tightest))
            continue
        found += 1
        check(case, plan)
        # Where floors take from the bound, only aggregators that hold a part most closely are compared.
        if not (floors_take and name in ("random", "pre-decided")):
            assert Exact()(case).messages <= plan.messages * (1 + 1e-9)
    assert found > 5
    assert all(tightest == least for tightest, least in said)
    if name in ("exact", "exhaustive", "optc"):
        assert refused == 0, "there is a plan for every one of these"


@pytest.mark.parametrize("name", PLANNERS)
def test_the_same_problem_gives_the_same_plan(name: str) -> None:
    case = problem(np.random.default_rng(3), 6, 4, MODELS[2], tightness=0.1)
    assert PLANNERS[name]()(case) == PLANNERS[name]()(case)


@pytest.mark.parametrize("name", PLANNERS)
def test_what_cannot_be_is_refused_with_the_tightest_bound_that_can(name: str) -> None:
    case = problem(np.random.default_rng(4), 5, 3, MODELS[0], tightness=1.01)
    with pytest.raises(Infeasible) as refused:
        PLANNERS[name]()(case)
    assert refused.value.tightest == pytest.approx(case.query.within * 1.01)
    nobody = Problem(case.query, (), case.dynamics, case.model)
    with pytest.raises(Infeasible) as refused:
        PLANNERS[name]()(nobody)
    assert math.isinf(refused.value.tightest)
