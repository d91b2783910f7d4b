"""Min-cost: the part with the least share of the cost for each item, (a^(1/(p+1)) + α·X/(C·a^(1/(p+1))))/|part|.

Σ a^(1/(p+1)) is what a plan costs where no floor binds. α weighs how much of the bound the floor takes against it: 0
does not look at floors at all.

References
    R. Gupta, K. Ramamritham, Optimized query planning of continuous aggregation queries in dynamic data
    dissemination networks, WWW 2007, sections 4.2.2 and 4.2.3.
"""

from dataclasses import dataclass

from slackwater.planning.aggregation.base import NetworkPlan
from slackwater.planning.aggregation.problem import Problem
from slackwater.planning.aggregation.published.greedy import greedy, positive


@dataclass(frozen=True, slots=True)
class MinCost:
    """Greedy by cost."""

    alpha: float = 0.0
    name: str = "min-cost"

    def __call__(self, problem: Problem) -> NetworkPlan:
        """Plan a query."""

        def score(part: int, floor: float) -> float:
            root = problem.root(part)
            doubt = self.alpha * floor / (problem.query.within * positive(problem, root)) if self.alpha else 0.0
            return (root + doubt) / part.bit_count()

        return problem.planned(self.name, greedy(problem, score))
