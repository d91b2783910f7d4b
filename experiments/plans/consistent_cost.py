"""Consistent cost model: sumdiff and bound both normalised, so that cost = raw·norm/C².

R = raw/norm is the sumdiff of a query per unit of norm, C/norm its bound per unit, and messages go with R/(C/norm)².
Weights that are all doubled together with the bound then cost the same.
"""

from dataclasses import dataclass

from slackwater.planning.aggregation.base import Floats


@dataclass(frozen=True, slots=True)
class ConsistentCost:
    """amount = raw·norm, over C².

    >>> import numpy as np
    >>> three = np.sqrt(np.array([3.0]))
    >>> float(ConsistentCost().amounts(three, three)[0]) / 3**2
    0.333...
    """

    factor: float = 1.0

    @property
    def exponent(self) -> float:
        """The p of 1/C^p."""
        return 2.0

    @property
    def pairs(self) -> float:
        """Each unordered pair once."""
        return 1.0

    def amounts(self, raw: Floats, norm: Floats) -> Floats:
        """raw·norm, which is 0 with either: weights that cancel in norm are taken for movements that cancel."""
        return raw * norm

    def gain_amounts(self, raw: Floats, norm: Floats) -> Floats:
        """The same amount."""
        return raw * norm
