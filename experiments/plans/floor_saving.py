"""Floor saving: the same queries planned with and without the floors of aggregators.

Each query has the network to itself, its offers scaled so that the lowest floors take a share of the bound. Statistics
and model are of the first half of a trace. On the second every aggregator holds what is pushed to it, and sends a part
when the sum of what it holds has left what the floor leaves of the part's bound.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from experiments.plans.pushes import count_pushes, pushed
from experiments.plans.setting import rescaled
from experiments.plans.traces import Trace
from slackwater.planning.aggregation import CostModel, NetworkPlan, Offer, Planner, Problem, SumQuery

SHARES = (0.0, 0.1, 0.2, 0.4, 0.6, 0.8, 0.95)


@dataclass(frozen=True, slots=True)
class FloorSaving:
    """With floors that take a share of the bound: messages a query, and parts a plan, by both ways of one planner."""

    trace: str
    share: float
    planner: str
    as_if_known: float
    with_floors: float
    parts_as_if_known: float
    parts_with_floors: float


def held_plan_messages(trace: Trace, plan: NetworkPlan, offers: Sequence[Offer]) -> int:
    """Messages to the client of all parts, each made of what its aggregator holds."""
    closely = {offer.aggregator: offer.within for offer in offers}
    sent = 0
    for part in plan.parts:
        held = [
            pushed(trace.values[:, column].copy(), closely[part.aggregator][item])
            for item, column in zip(part.items, trace.columns(part.items), strict=True)
        ]
        sent += count_pushes(np.stack(held, axis=1) @ np.array(part.weights), part.within - part.floor)
    return sent


def floor_saving(
    trace: Trace,
    offers: Sequence[Offer],
    queries: Sequence[SumQuery],
    model: CostModel,
    planners: Sequence[Planner],
    shares: Sequence[float] = SHARES,
) -> list[FloorSaving]:
    """All shares on one trace; queries come with their bounds."""
    first, second = trace.halves()
    dynamics = first.dynamics()
    found = []
    for share in shares:
        for planner in planners:
            rows = []
            for query in queries:
                least = Problem(query, tuple(offers), dynamics, model).tightest
                scaled = rescaled(offers, share * query.within / least)
                plans = [planner(Problem(query, scaled, dynamics, model, floors_take=take)) for take in (False, True)]
                rows.append(
                    [held_plan_messages(second, plan, scaled) for plan in plans] + [len(made.parts) for made in plans]
                )
            found.append(FloorSaving(trace.name, share, planner.name, *(float(mean) for mean in np.mean(rows, axis=0))))
    return found
