"""Plan builder: from a sum and the items that aggregators offer to an executable plan, with predicted costs."""

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from fractions import Fraction

import numpy as np

from slackwater.core.bound import Bound
from slackwater.core.errors import Infeasible, SlackwaterError
from slackwater.core.query import Aggregate, Weight
from slackwater.core.types import Key
from slackwater.planning.aggregation import (
    Dynamics,
    Exact,
    MaxGain,
    MinCost,
    MostSaved,
    Naive,
    NetworkPlan,
    Offer,
    OptC,
    Part,
    Planner,
    Problem,
    ScaleFreeCost,
    SumQuery,
)
from slackwater.planning.aggregation.exact_bounds import granted
from slackwater.planning.aggregation.held_cost import held_messages
from slackwater.planning.aggregation.movement import Column, MovementModel
from slackwater.planning.aggregation.sum_query import as_sum, item_name
from slackwater.server.planners.network.base import HERE, LivePart, LivePlan, NetworkRules

ALTERNATIVES: tuple[Planner, ...] = (Naive(), OptC(), MinCost(), MaxGain(), MostSaved(), Exact())
"""Those whose predictions `EXPLAIN` shows beside the plan."""
NO_PLAN = (SlackwaterError, ArithmeticError, ValueError)
"""What planning may raise. Queries are untrusted and stay in the log: numbers beyond all plans are a
reason to say so, never one to go down."""


def rehearse() -> None:
    """Make one loose and one tight plan, so that planning kernels are compiled before a client waits for them.

    On a machine that has never planned this takes many seconds, longer than a lease.
    """
    offers = (Offer("a", {"x": 0.5, "z": 0.2}), Offer("b", {"x": 1.0, "y": 0.1}))
    dynamics = Dynamics(("x", "y", "z"), np.array([3.0, 1.0, 2.0]), np.eye(3))
    for within in (800.0, 80.0):
        query = SumQuery(("x", "y", "z"), (50.0, 200.0, 150.0), within)
        for planner in ALTERNATIVES:
            with suppress(Infeasible):
                planner(Problem(query, offers, dynamics, ScaleFreeCost(), floors_take=True))


class Drafter:
    """Makes plans. `text_of` writes a query as the SQL text that is asked of an aggregator."""

    def __init__(self, rules: NetworkRules, movement: MovementModel, text_of: Callable[[Aggregate], str]) -> None:
        self._rules = rules
        self._text_of = text_of
        self.movement = movement

    def plan(self, query: Aggregate, held: Mapping[str, Mapping[Key, float]]) -> LivePlan:
        """Plan a query over what each aggregator holds of its column; `Infeasible` where no aggregator can keep it, and
        another of `NO_PLAN` where its numbers are too large or too small to plan with."""
        problem = self.problem(query, held)
        if len(problem.query.items) <= self._rules.exact_items:
            return self._live(query, held, problem, Exact()(problem))
        try:
            return self._live(query, held, problem, MostSaved()(problem))
        except Infeasible:
            # Where greedy choices leave no room for the bound, items apart and closest are feasible if anything is.
            return self._live(query, held, problem, OptC()(problem))

    def problem(self, query: Aggregate, held: Mapping[str, Mapping[Key, float]]) -> Problem:
        """The planning problem of a sum."""
        asked = as_sum(query)
        keys = [weight.key for weight in query.weights or ()]
        offers = [
            Offer(name, {item_name(key): some[key] for key in keys if key in some}) for name, some in held.items()
        ]
        here = _for_the_node(asked, offers) if self._rules.unheld else []
        if here:
            offers.append(Offer(HERE, dict.fromkeys(here, 0.0)))
        dynamics = self.movement.dynamics(column_of(query), asked.items)
        return Problem(asked, tuple(offers), dynamics, self.movement.model, floors_take=True)

    def alternatives(self, query: Aggregate, held: Mapping[str, Mapping[Key, float]]) -> dict[str, float | None]:
        """Messages an hour that are expected of each planner's plan; None where it finds none."""
        problem = self.problem(query, held)
        found: dict[str, float | None] = {}
        for planner in ALTERNATIVES:
            if isinstance(planner, Exact) and len(problem.query.items) > self._rules.exact_items:
                found[planner.name] = None
                continue
            try:
                found[planner.name] = planner(problem).messages
            except NO_PLAN:
                found[planner.name] = None
        return found

    def expected(self, part: LivePart) -> float:
        """Messages an hour that are expected of a part by what is believed now."""
        # Whatever its bound: a part may be exact, and planners share out bounds above 0 only.
        alone = as_sum(replace(part.query, bound=Bound(1.0)))
        dynamics = self.movement.dynamics(column_of(part.query), alone.items)
        problem = Problem(alone, (), dynamics, self.movement.model)
        amount, floors = problem.amount(problem.whole), np.array(part.floors)
        return held_messages(problem.model, amount, part.within, problem.amounts, floors)

    def _live(
        self, query: Aggregate, held: Mapping[str, Mapping[Key, float]], problem: Problem, plan: NetworkPlan
    ) -> LivePlan:
        weights = {item_name(weight.key): weight for weight in query.weights or ()}
        floors = [exact_floor(query, [weights[item] for item in part.items], held, part) for part in plan.parts]
        bounds = granted(query.bound.within, [part.within for part in plan.parts], floors)
        if bounds is None:
            raise problem.infeasible(plan.planner, float(sum(floors, Fraction(0))))
        return LivePlan(
            plan.planner,
            tuple(
                self._part(query, held, replace(part, within=bound))
                for part, bound in zip(plan.parts, bounds, strict=True)
            ),
        )

    def _part(self, query: Aggregate, held: Mapping[str, Mapping[Key, float]], part: Part) -> LivePart:
        chosen = set(part.items)
        ordered = tuple(one for one in query.weights or () if item_name(one.key) in chosen)
        asked = replace(query, bound=Bound(part.within), weights=ordered)
        some = dict.fromkeys((one.key for one in ordered), 0.0) if part.aggregator == HERE else held[part.aggregator]
        return LivePart(
            part.aggregator,
            tuple(item_name(one.key) for one in ordered),
            asked,
            self._text_of(asked),
            tuple(abs(one.factor * query.scale) * some[one.key] for one in ordered),
            part.messages,
        )


def _for_the_node(asked: SumQuery, offers: list[Offer]) -> list[str]:
    """The items that the node itself has to serve: those of no aggregator, and where the others are held too loosely
    for the bound, as few of them as will do, those that are most in the way first."""
    closest: dict[str, Fraction] = {}
    for item, weight in zip(asked.items, asked.weights, strict=True):
        held = [offer.within[item] for offer in offers if item in offer.within]
        if held:
            closest[item] = abs(Fraction(weight)) * Fraction(min(held))
    here = [item for item in asked.items if item not in closest]
    over = sum(closest.values(), Fraction(0)) - Fraction(asked.within)
    for item in sorted(closest, key=lambda one: -closest[one]):
        if over <= 0:
            break
        here.append(item)
        over -= closest[item]
    return here


def column_of(query: Aggregate) -> Column:
    """The table and column that a sum is over."""
    assert query.column is not None
    return query.table, query.column


def exact_floor(
    query: Aggregate, weights: list[Weight], held: Mapping[str, Mapping[Key, float]], part: Part
) -> Fraction:
    """What an aggregator can promise of a part, as it computes it itself: Σ |w|·c."""
    if part.aggregator == HERE:
        return Fraction(0)
    some = held[part.aggregator]
    total = sum((abs(Fraction(one.factor)) * Fraction(some[one.key]) for one in weights), Fraction(0))
    return abs(Fraction(query.scale)) * total
