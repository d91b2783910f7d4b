"""Random: an aggregator by lot gets all it has of the items left, again and again. The baseline of every choice.

References
    R. Gupta, K. Ramamritham, Optimized query planning of continuous aggregation queries in dynamic data
    dissemination networks, WWW 2007, section 5.1, method 3.
"""

from dataclasses import dataclass

import numpy as np

from slackwater.planning.aggregation.base import NetworkPlan
from slackwater.planning.aggregation.problem import Problem


@dataclass(frozen=True, eq=False)
class Drawn:
    """Draws from the generator it is given, so its plans depend on what was planned before."""

    generator: np.random.Generator
    name: str = "random"

    def __call__(self, problem: Problem) -> NetworkPlan:
        """Plan a query."""
        problem.check_offered()
        left = problem.whole
        chosen = []
        while left:
            useful = [offer for offer, held in enumerate(problem.held) if held & left]
            offer = useful[int(self.generator.integers(len(useful)))]
            chosen.append((offer, problem.held[offer] & left))
            left &= ~problem.held[offer]
        return problem.planned(self.name, chosen)
