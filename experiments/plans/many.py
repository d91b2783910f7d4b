"""Multi-query planning: each query planned by itself, and the parts that several plans can share.

Two parts are *alike* when one aggregator serves the same items in the same proportions. It then needs to follow one
sum only, within the tightest bound that any of them has for it; every client multiplies by its own scale.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from slackwater.core.errors import Infeasible
from slackwater.planning.aggregation.base import CostModel, Dynamics, NetworkPlan, Offer, Part, SumQuery
from slackwater.planning.aggregation.problem import Planner, Problem

Likeness: TypeAlias = tuple[str, tuple[str, ...], tuple[float, ...]]
"""Aggregator, items in order, weights for each 1 of the first."""
_DIGITS = 12


@dataclass(frozen=True, slots=True)
class SharedPart:
    """A part that several queries have, and by how much each of them multiplies it."""

    aggregator: str
    items: tuple[str, ...]
    weights: tuple[float, ...]
    within: float
    users: tuple[tuple[int, float], ...]


@dataclass(frozen=True, slots=True)
class ManyPlans:
    """A plan, or why there is none, for each query in order; and what can be shared."""

    plans: tuple[NetworkPlan | Infeasible, ...]
    shared: tuple[SharedPart, ...]


def likeness(part: Part) -> tuple[Likeness, float]:
    """What alike parts have in common, and the scale of this one.

    >>> likeness(Part("D", ("b", "a"), (-4.0, 2.0), within=1.0, floor=0.0, messages=0.0))
    (('D', ('a', 'b'), (1.0, -2.0)), 2.0)
    """
    pairs = sorted(zip(part.items, part.weights, strict=True))
    scale = pairs[0][1]
    proportions = tuple(float(f"{weight / scale:.{_DIGITS}g}") for _, weight in pairs)
    return (part.aggregator, tuple(item for item, _ in pairs), proportions), scale


def shared_parts(plans: Iterable[NetworkPlan | Infeasible]) -> tuple[SharedPart, ...]:
    """The parts that more than one query has, those with the most users first."""
    uses: dict[Likeness, list[tuple[int, float, float]]] = {}
    for number, plan in enumerate(plans):
        for part in plan.parts if isinstance(plan, NetworkPlan) else ():
            alike, scale = likeness(part)
            uses.setdefault(alike, []).append((number, scale, part.within / abs(scale)))
    found = [
        SharedPart(
            *alike,
            within=min(within for _, _, within in users),
            users=tuple((number, scale) for number, scale, _ in users),
        )
        for alike, users in uses.items()
        if len(users) > 1
    ]
    return tuple(sorted(found, key=lambda part: (-len(part.users), part.aggregator, part.items)))


def plan_all(
    queries: Sequence[SumQuery],
    offers: tuple[Offer, ...],
    dynamics: Dynamics,
    model: CostModel,
    planner: Planner,
    *,
    floors_take: bool = False,
) -> ManyPlans:
    """Plan each query; one that cannot be has its error in place of a plan."""
    plans: list[NetworkPlan | Infeasible] = []
    for query in queries:
        try:
            plans.append(planner(Problem(query, offers, dynamics, model, floors_take)))
        except Infeasible as error:
            plans.append(error)
    return ManyPlans(tuple(plans), shared_parts(plans))
