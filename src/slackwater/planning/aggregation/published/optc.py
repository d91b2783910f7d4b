"""Optc: items apart, with the optimal split of the bound among them.

References
    R. Gupta, K. Ramamritham, Optimized query planning of continuous aggregation queries in dynamic data
    dissemination networks, WWW 2007, section 5.1, method 2.
"""

from dataclasses import dataclass

from slackwater.planning.aggregation.base import NetworkPlan
from slackwater.planning.aggregation.problem import Problem


@dataclass(frozen=True, slots=True)
class OptC:
    """Water-filling over single items; feasible whenever any plan is."""

    name: str = "optc"

    def __call__(self, problem: Problem) -> NetworkPlan:
        """Plan a query."""
        problem.check_offered()
        places = range(len(problem.query.items))
        return problem.planned(self.name, [(problem.holder(1 << place)[0], 1 << place) for place in places])
