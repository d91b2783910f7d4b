"""Network plan: a weighted sum cut into parts, each kept by one aggregator; values and the contract of planners.

Aggregators *offer* items: aggregator D serves item s within c of the truth, or looser. A query is Σ wᵢ·sᵢ within C. A
plan cuts the query's items into parts, gives each part to one aggregator that offers all its items, and each part a
bound C_k of its own; the aggregator sends a part's value when it has left C_k, and the client adds the parts.

Contract of a planner
    1. Every item of the query is in exactly one part, with the weight that it has in the query.
    2. The aggregator of a part offers all its items.
    3. C_k ≥ X_k = Σ |wᵢ|·cᵢ over the items of the part: no aggregator promises more precision than it has.
    4. Σ C_k ≤ C, but for rounding. So the sum that the client shows is within C.
    5. Where a planner finds no such plan it raises `Infeasible`. The error gives the tightest bound that has a plan
       at all, which only the exact planner is sure to find.
    6. The same problem gives the same plan. A planner that draws lots draws them from a generator it was given.

Among such plans, the fewer messages to the client the better. A cost model predicts how many a part costs: it
puts an amount a over a power of the bound, factor·a/C^p, and sees of a part only raw and norm,
    raw² = Σ wᵢ²Rᵢ² + 2·Σ_{i<j} ρᵢⱼ·wᵢwⱼRᵢRⱼ        norm² = Σ wᵢ² + 2·Σ_{i<j} ρᵢⱼ·wᵢwⱼ
where R is an item's sumdiff in an hour and ρ the cosine similarity of the changes of two.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from slackwater.core.errors import PlanningError

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Offer:
    """An aggregator and the bound within which it holds each of its items."""

    aggregator: str
    within: Mapping[str, float]

    def __post_init__(self) -> None:
        for item, bound in self.within.items():
            if not (math.isfinite(bound) and bound >= 0):
                raise PlanningError(
                    f"aggregator {self.aggregator} offers {item} within {bound}, which is no bound: 0 or more is"
                )


@dataclass(frozen=True, slots=True)
class SumQuery:
    """Σ weight · item, within a bound.

    >>> SumQuery(("S1", "S2"), (50.0, 200.0), within=80.0).weight("S2")
    200.0
    """

    items: tuple[str, ...]
    weights: tuple[float, ...]
    within: float

    def __post_init__(self) -> None:
        if not self.items or len(self.items) != len(self.weights):
            raise PlanningError(
                f"a query needs one weight for each item, not {len(self.weights)} for {len(self.items)}"
            )
        if len(set(self.items)) != len(self.items):
            raise PlanningError("a query names each item once; add its weights up first")
        if not all(math.isfinite(weight) and weight != 0 for weight in self.weights):
            raise PlanningError("weights are finite and not 0; leave out an item that does not count")
        if not (math.isfinite(self.within) and self.within > 0):
            raise PlanningError(f"a bound to be shared out is finite and above 0, not {self.within}")

    def weight(self, item: str) -> float:
        """The weight of an item."""
        return self.weights[self.items.index(item)]


@dataclass(frozen=True, eq=False)
class Dynamics:
    """How items move: sumdiff in an hour, and the cosine similarity of the changes of all pairs."""

    items: tuple[str, ...]
    sumdiff: Floats
    similarity: Floats

    def __post_init__(self) -> None:
        count = len(self.items)
        if self.sumdiff.shape != (count,) or self.similarity.shape != (count, count):
            raise PlanningError(
                f"the dynamics of {count} items are {count} sumdiffs and {count}×{count} similarities, "
                f"not {self.sumdiff.shape} and {self.similarity.shape}"
            )
        if not (
            np.all(np.isfinite(self.sumdiff)) and np.all(self.sumdiff >= 0) and np.all(np.isfinite(self.similarity))
        ):
            raise PlanningError("sumdiffs are finite numbers of 0 or more, and similarities are finite")

    @cached_property
    def places(self) -> dict[str, int]:
        """The row of each item."""
        return {item: place for place, item in enumerate(self.items)}

    def rows(self, items: Sequence[str]) -> npt.NDArray[np.int64]:
        """The rows of some items."""
        missing = [item for item in items if item not in self.places]
        if missing:
            raise PlanningError(f"nothing is known of how {', '.join(missing[:5])} moves: learn its statistics first")
        return np.array([self.places[item] for item in items], np.int64)

    def independent(self) -> "Dynamics":
        """The same items as if no two had to do with each other: ρ = 0."""
        return Dynamics(self.items, self.sumdiff, np.eye(len(self.items)))


@runtime_checkable
class CostModel(Protocol):
    """What a part costs: factor · amount / bound^exponent messages an hour."""

    @property
    def exponent(self) -> float:
        """The p of 1/C^p."""
        ...

    @property
    def factor(self) -> float:
        """Messages an hour for one amount at bound 1. Plans do not depend on it, predictions do."""
        ...

    @property
    def pairs(self) -> float:
        """How often the sum over unordered pairs is taken: once, unless a misprint is to be kept."""
        ...

    def amounts(self, raw: Floats, norm: Floats) -> Floats:
        """Put an amount over the bound of each part."""
        ...

    def gain_amounts(self, raw: Floats, norm: Floats) -> Floats:
        """Amounts in max-gain's term of satisfiability."""
        ...


@dataclass(frozen=True, slots=True)
class Part:
    """A sub-query at an aggregator, its own bound, the tightest it could have, and the messages an hour that are
    expected of it."""

    aggregator: str
    items: tuple[str, ...]
    weights: tuple[float, ...]
    within: float
    floor: float
    messages: float


@dataclass(frozen=True, slots=True)
class NetworkPlan:
    """The parts of a query, with the name of the planner that made them."""

    planner: str
    query: SumQuery
    parts: tuple[Part, ...]

    @property
    def messages(self) -> float:
        """Messages an hour expected of all parts."""
        return sum(part.messages for part in self.parts)


def messages(model: CostModel, amount: float, within: float) -> float:
    """Messages an hour of a part; none where nothing moves, whatever the bound. Where the number is beyond
    what floating point has, it is 0 or infinite.

    >>> from slackwater.planning.aggregation.scale_free_cost import ScaleFreeCost
    >>> messages(ScaleFreeCost(exponent=2.0), amount=8.0, within=2.0)
    2.0
    >>> messages(ScaleFreeCost(), amount=8.0, within=1e300), messages(ScaleFreeCost(), amount=8.0, within=1e-300)
    (0.0, inf)
    """
    if amount <= 0:
        return 0.0
    if not (within > 0 and math.isfinite(amount)):
        return math.inf
    try:
        return model.factor * amount / math.pow(within, model.exponent)
    except OverflowError:
        return 0.0
    except ZeroDivisionError:
        return math.inf
