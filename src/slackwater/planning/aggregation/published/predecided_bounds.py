"""Predecided bounds: one fixed bound for each item; a part's is their sum, and only the partition is chosen.

Only aggregators that hold an item within its bound count for it. Of what each could serve, the part with the least
a/(C_part^p·|part|) is taken first.

References
    R. Gupta, K. Ramamritham, Optimized query planning of continuous aggregation queries in dynamic data
    dissemination networks, WWW 2007, section 4.2.1.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from slackwater.core.errors import Infeasible, PlanningError
from slackwater.planning.aggregation.base import NetworkPlan, Offer, messages
from slackwater.planning.aggregation.problem import Problem
from slackwater.planning.aggregation.published.greedy import greedy


@dataclass(frozen=True, eq=False)
class Predecided:
    """Plans with a bound for each item; without any, the query's is shared out equally: |wᵢ|·Cᵢ = C/n."""

    within: Mapping[str, float] | None = None
    name: str = "pre-decided"

    def __call__(self, problem: Problem) -> NetworkPlan:
        """Plan a query."""
        query = problem.query
        share = query.within / len(query.items)
        if self.within is None:
            decided = {item: share / abs(weight) for item, weight in zip(query.items, query.weights, strict=True)}
        else:
            decided = {item: self.within[item] for item in query.items if item in self.within}
        missing = [item for item in query.items if item not in decided]
        if missing:
            raise PlanningError(f"no bound was decided for {', '.join(missing[:5])}")
        own = [abs(weight) * decided[item] for item, weight in zip(query.items, query.weights, strict=True)]
        if sum(own) > query.within * (1 + 1e-9):
            raise PlanningError(
                f"the bounds decided add up to {sum(own):g}, more than the {query.within:g} of the query"
            )
        near = tuple(
            Offer(offer.aggregator, {item: c for item, c in offer.within.items() if c <= decided.get(item, -1.0)})
            for offer in problem.offers
        )
        narrowed = replace(problem, offers=near)
        try:
            narrowed.check_offered()
        except Infeasible as error:
            raise Infeasible(
                f"{error}, within the bound decided for it; with other bounds there are plans "
                f"down to {problem.tightest:g}",
                tightest=problem.tightest,
            ) from None

        def bound(part: int) -> float:
            return sum(own[place] for place in problem.members(part))

        def score(part: int, floor: float) -> float:
            return messages(problem.model, problem.amount(part), bound(part)) / part.bit_count()

        parts = greedy(narrowed, score)
        return narrowed.plan(self.name, parts, [bound(part) for _, part in parts])
