"""Printed cost model: the paper's formula exactly as published, for comparison.

The sum over pairs runs over i ≠ j and is taken twice again, so each pair counts double. Min-cost and the sharing out
put R = raw/norm over the square of the bound that was not normalised; max-gain's term of satisfiability has raw.

References
    R. Gupta, K. Ramamritham, Optimized query planning of continuous aggregation queries in dynamic data
    dissemination networks, WWW 2007, sections 3.2.1 and 3.2.2.
"""

from dataclasses import dataclass

import numpy as np

from slackwater.planning.aggregation.base import Floats


@dataclass(frozen=True, slots=True)
class PrintedCost:
    """amount = raw/norm, over C².

    >>> PrintedCost().amounts(np.array([6.0, 0.0, 5.0]), np.array([3.0, 0.0, 0.0])).tolist()
    [2.0, 0.0, 5.0]
    """

    factor: float = 1.0

    @property
    def exponent(self) -> float:
        """The p of 1/C^p."""
        return 2.0

    @property
    def pairs(self) -> float:
        """Each unordered pair twice."""
        return 2.0

    def amounts(self, raw: Floats, norm: Floats) -> Floats:
        """raw/norm; raw alone where there is nothing to divide by."""
        return np.divide(raw, norm, out=raw.copy(), where=norm > 0)

    def gain_amounts(self, raw: Floats, norm: Floats) -> Floats:
        """raw."""
        return raw
