"""Pull-rate forecast: a power law for the pulls that a query needs, before it runs.

A weighted sum of items whose changes have deviation σᵢ a tick, pulled so that its variance stays below what B and f
allow, is best served when item i is pulled at a rate in proportion to |wᵢ|·σᵢ; its pulls a tick are then c·(Σ|wᵢ|·σᵢ
/ B)². Data that are no random walks have another exponent, and the constant depends on f, so both are fitted to what
was measured before:

    pulls a tick = a·(S / B)^p,   S = Σ|wᵢ|·σᵢ

never less than one pull of each item in TTRmax ticks and never more than one of each a tick. Ranking
queries needs S alone, the numbers need the fit.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from slackwater.core.errors import PlanningError
from slackwater.planning.pulling.base import LONGEST, PullQuery


def strength(query: PullQuery, deviations: Sequence[float]) -> float:
    """S / B: how much a query's items move in a tick, in units of its bound."""
    if not query.bound.within > 0:
        raise PlanningError("a bound of 0 needs a pull of every item at every tick; there is nothing to predict")
    moved = sum(abs(w) * deviations[i] for i, w in zip(query.items, query.weights, strict=True))
    return moved / query.bound.within


@dataclass(frozen=True, slots=True)
class Forecast:
    """The fitted law, for one fidelity."""

    factor: float
    exponent: float
    longest: int = LONGEST

    @classmethod
    def fit(cls, strengths: Sequence[float], pulls_a_tick: Sequence[float], longest: int = LONGEST) -> "Forecast":
        """Least squares of the logarithms over queries that were measured; those that did not move are left out.

        >>> law = Forecast.fit([0.1, 0.2, 0.4], [0.01, 0.04, 0.16])
        >>> round(law.factor, 6), round(law.exponent, 6)
        (1.0, 2.0)
        """
        points = [(math.log(s), math.log(p)) for s, p in zip(strengths, pulls_a_tick, strict=True) if s > 0 and p > 0]
        if not points:
            raise PlanningError("no query with movement and pulls was measured: there is nothing to fit")
        mean_x = sum(x for x, _ in points) / len(points)
        mean_y = sum(y for _, y in points) / len(points)
        spread = sum((x - mean_x) ** 2 for x, _ in points)
        # Strengths that are all alike do not determine an exponent; a random walk's is taken.
        exponent = sum((x - mean_x) * (y - mean_y) for x, y in points) / spread if spread > 1e-9 else 2.0
        return cls(math.exp(mean_y - exponent * mean_x), exponent, longest)

    def pulls(self, query: PullQuery, deviations: Sequence[float]) -> float:
        """Pulls a tick."""
        count = len(query.items)
        moving = strength(query, deviations)
        law = self.factor * moving**self.exponent if moving > 0 else 0.0
        return min(max(law, count / self.longest), float(count))
