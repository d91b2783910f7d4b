"""Max-gain: the part in which most movement cancels for each item.

The score is (G − α·X/(C·a^(1/(p+1))))/|part| with G = Σ|w|R/raw − 1. A restless item so comes into a large part,
where it costs least. α as in min-cost.

Divided by |part| as printed, the score of n like items is (√n − 1)/n, largest for four and falling from there.
Without the division (`per_item` off) larger parts win, and far fewer messages are needed.

References
    R. Gupta, K. Ramamritham, Optimized query planning of continuous aggregation queries in dynamic data
    dissemination networks, WWW 2007, section 4.3.
"""

from dataclasses import dataclass

import numpy as np

from slackwater.planning.aggregation.base import NetworkPlan
from slackwater.planning.aggregation.problem import Problem
from slackwater.planning.aggregation.published.greedy import greedy, positive


@dataclass(frozen=True, slots=True)
class MaxGain:
    """Greedy by gain."""

    alpha: float = 0.0
    per_item: bool = True
    name: str = "max-gain"

    def __call__(self, problem: Problem) -> NetworkPlan:
        """Plan a query."""

        def score(part: int, floor: float) -> float:
            apart = float(np.sum(problem.moves[problem.members(part)]))
            # A part that does not move at all has gained everything; a million times is as good as that.
            together = max(float(problem.sizes(part)[0][0]), 1e-6 * apart)
            gain = apart / together - 1.0 if apart > 0 else 0.0
            doubt = 0.0
            if self.alpha:
                doubt = self.alpha * floor / (problem.query.within * positive(problem, problem.gain_root(part)))
            return (doubt - gain) / (part.bit_count() if self.per_item else 1)

        return problem.planned(self.name, greedy(problem, score))
