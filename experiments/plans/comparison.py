"""Experiment 1: messages of each planner at several bounds.

Statistics and model are of the first half of a trace, messages are counted on the second. Only queries for which every
planner found a plan at every bound count for the averages, so that all are compared on the same ones; how many each
left unanswered stands beside.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from experiments.plans.message_count import plan_messages
from experiments.plans.traces import Trace
from slackwater.core.errors import Infeasible
from slackwater.planning.aggregation import (
    CostModel,
    Drawn,
    Exact,
    MaxGain,
    MinCost,
    MostSaved,
    Naive,
    NetworkPlan,
    Offer,
    OptC,
    Planner,
    Problem,
    SumQuery,
)


@dataclass(frozen=True, slots=True)
class Compared:
    """One planner at one bound: messages a query on average, counted and expected, and the share left unanswered."""

    trace: str
    model: str
    bound: float
    planner: str
    queries: int
    messages: float
    expected: float
    parts: float
    unanswered: float


def planners(seed: int) -> tuple[Planner, ...]:
    """Those that are compared."""
    undivided = MaxGain(per_item=False, name="max-gain, undivided")
    by_lot = Drawn(np.random.default_rng(seed))
    return (Naive(), OptC(), by_lot, MinCost(), MaxGain(), undivided, MostSaved(), Exact())


def attempted(
    planner: Planner, queries: Sequence[SumQuery], offers: tuple[Offer, ...], trace: Trace, model: CostModel
) -> list[NetworkPlan | None]:
    """The plans there are; None where the planner finds none."""
    dynamics = trace.dynamics()
    made: list[NetworkPlan | None] = []
    for query in queries:
        try:
            made.append(planner(Problem(query, offers, dynamics, model)))
        except Infeasible:
            made.append(None)
    return made


def compare(
    trace: Trace,
    offers: tuple[Offer, ...],
    queries: Sequence[SumQuery],
    bounds: Sequence[float],
    unit: float,
    models: dict[str, CostModel],
    seed: int = 1,
) -> list[Compared]:
    """All planners under all models at all bounds, given in units; offers are in the trace's own units."""
    first, second = trace.halves()
    found = []
    for name, model in models.items():
        plans: dict[tuple[float, str], list[NetworkPlan | None]] = {}
        for bound in bounds:
            asked = [SumQuery(query.items, query.weights, bound * unit) for query in queries]
            for planner in planners(seed):
                plans[bound, planner.name] = attempted(planner, asked, offers, first, model)
        answered = [number for number in range(len(queries)) if all(made[number] for made in plans.values())]
        for (bound, who), made in plans.items():
            kept = [plan for number in answered if (plan := made[number]) is not None]
            found.append(
                Compared(
                    trace.name,
                    name,
                    bound,
                    who,
                    len(kept),
                    float(np.mean([plan_messages(second, plan) for plan in kept])),
                    float(np.mean([plan.messages for plan in kept]) * second.hours),
                    float(np.mean([len(plan.parts) for plan in kept])),
                    sum(plan is None for plan in made) / len(made),
                )
            )
    return found
