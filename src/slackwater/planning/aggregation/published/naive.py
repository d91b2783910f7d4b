"""Naive: items apart, each with the same share of the bound, which is a tolerance per item.

References
    R. Gupta, K. Ramamritham, Optimized query planning of continuous aggregation queries in dynamic data
    dissemination networks, WWW 2007, section 5.1, method 1.
"""

from dataclasses import dataclass

from slackwater.planning.aggregation.base import NetworkPlan
from slackwater.planning.aggregation.problem import Problem


@dataclass(frozen=True, slots=True)
class Naive:
    """|wᵢ|·Cᵢ = C/n."""

    name: str = "naive"

    def __call__(self, problem: Problem) -> NetworkPlan:
        """Plan a query."""
        problem.check_offered()
        count = len(problem.query.items)
        closest = [problem.holder(1 << place) for place in range(count)]
        share = problem.query.within / count
        largest = max(floor for _, floor in closest)
        if largest > share:
            raise problem.infeasible(self.name, largest * count)
        parts = [(offer, 1 << place) for place, (offer, _) in enumerate(closest)]
        return problem.plan(self.name, parts, [share] * count)
