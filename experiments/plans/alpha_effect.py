"""Experiment 3: the effect of α, when aggregators hold their items loosely and many choices do not fit the bound.

The bounds of the offers are 0.015–0.04. Queries that no plan can answer are left out. α is given in units of the mean
root r = a^(1/(p+1)) of an item, and of r² for min-cost: the formulas divide by a root, which has the units of the
data. The exact planner answers every query that can be answered and stands beside.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from experiments.plans.comparison import attempted
from experiments.plans.following_alpha import FollowingAlpha
from experiments.plans.message_count import plan_messages
from experiments.plans.traces import Trace
from slackwater.core.errors import Infeasible
from slackwater.planning.aggregation import CostModel, Exact, MaxGain, MinCost, Offer, Planner, Problem, SumQuery


@dataclass(frozen=True, slots=True)
class AlphaEffect:
    """One planner with one α: the share left unanswered, and messages against the exact plan's for the same queries."""

    bound: float
    planner: str
    alpha: float
    queries: int
    unanswered: float
    messages: float
    against_exact: float


def mean_root(trace: Trace, queries: Sequence[SumQuery], model: CostModel) -> float:
    """The mean root of a weighted item."""
    dynamics = trace.dynamics()
    roots = []
    for query in queries:
        problem = Problem(query, (), dynamics, model)
        roots += [problem.root(1 << place) for place in range(len(query.items))]
    return float(np.mean(roots))


def alpha_effect(
    trace: Trace,
    offers: tuple[Offer, ...],
    queries: Sequence[SumQuery],
    bounds: Sequence[float],
    unit: float,
    model: CostModel,
    alphas: Sequence[float] = (0.0, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0),
) -> list[AlphaEffect]:
    """Both greedy planners with each α, at bounds given in units."""
    first, second = trace.halves()
    root = mean_root(first, queries, model)
    kinds: dict[str, Callable[[float], Planner]] = {
        "min-cost": lambda alpha: MinCost(alpha * root**2),
        "max-gain": lambda alpha: MaxGain(alpha * root),
    }
    found = []
    for bound in bounds:
        asked = [SumQuery(query.items, query.weights, bound * unit) for query in queries]
        best = attempted(Exact(), asked, offers, first, model)
        asked = [query for query, plan in zip(asked, best, strict=True) if plan is not None]
        least = [plan_messages(second, plan) for plan in best if plan is not None]
        found.append(AlphaEffect(bound, "exact", 0.0, len(asked), 0.0, float(np.mean(least)), 1.0))
        for name, kind in kinds.items():
            for alpha in alphas:
                plans = attempted(kind(alpha), asked, offers, first, model)
                pairs = [
                    (plan_messages(second, plan), exact)
                    for plan, exact in zip(plans, least, strict=True)
                    if plan is not None
                ]
                taken, exactly = np.sum(pairs, axis=0)
                found.append(
                    AlphaEffect(
                        bound,
                        name,
                        alpha,
                        len(asked),
                        1.0 - len(pairs) / len(asked),
                        float(taken) / len(pairs),
                        float(taken / exactly) if exactly else 1.0,
                    )
                )
    return found


def followed(
    trace: Trace, offers: tuple[Offer, ...], queries: Sequence[SumQuery], model: CostModel, target: float
) -> tuple[float, float]:
    """The share that max-gain answers when α follows a target, after a first third to settle; and the last α."""
    dynamics = trace.dynamics()
    following = FollowingAlpha(target, alpha=mean_root(trace, queries, model))
    answered = []
    for query in queries:
        try:
            MaxGain(following.alpha)(Problem(query, offers, dynamics, model))
            answered.append(True)
        except Infeasible:
            answered.append(False)
        following = following.after(found=answered[-1])
    return float(np.mean(answered[len(answered) // 3 :])), following.alpha
