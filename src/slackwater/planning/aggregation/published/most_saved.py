"""Most-saved: the part that lowers Σ a^(1/(p+1)) most against its items served apart.

Where no floor binds, a plan costs (Σ a^(1/(p+1)))^(p+1)/C^p, so this is a step down the very sum that is to be made
small. It is not divided by the number of items: a large part that saves much for each of many items is what one
wants, and a score for each item would rather have a few.
"""

from dataclasses import dataclass

from slackwater.planning.aggregation.base import NetworkPlan
from slackwater.planning.aggregation.problem import Problem
from slackwater.planning.aggregation.published.greedy import greedy


@dataclass(frozen=True, slots=True)
class MostSaved:
    """Greedy by what is saved; for queries that are too large to be planned exactly."""

    name: str = "most-saved"

    def __call__(self, problem: Problem) -> NetworkPlan:
        """Plan a query."""
        apart = [problem.root(1 << place) for place in range(len(problem.query.items))]

        def score(part: int, floor: float) -> float:
            return problem.root(part) - sum(apart[place] for place in problem.members(part))

        return problem.planned(self.name, greedy(problem, score))
