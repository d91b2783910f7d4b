"""Scale-free cost model, the default: messages = κ·(raw/C)^p, independent of units; κ and p are fitted to the data.

raw/C is how many bounds the sum would cross in an hour if it moved in one direction all the time. A straight course has
p = 1, a random walk p = 2, whatever reverts to a mean lies elsewhere.

References
    R. Gupta, K. Ramamritham, Optimized query planning of continuous aggregation queries in dynamic data
    dissemination networks, WWW 2007, section 3.2, whose cost model this one generalises.
"""

from dataclasses import dataclass

from slackwater.core.errors import PlanningError
from slackwater.planning.aggregation.base import Floats


@dataclass(frozen=True, slots=True)
class ScaleFreeCost:
    """amount = raw^p, over C^p."""

    factor: float = 1.0
    exponent: float = 2.0

    def __post_init__(self) -> None:
        if not (self.exponent > 0 and self.factor > 0):
            raise PlanningError(
                f"a cost that falls with the bound needs a factor and an exponent above 0, "
                f"not {self.factor} and {self.exponent}"
            )

    @property
    def pairs(self) -> float:
        """Each unordered pair once."""
        return 1.0

    def amounts(self, raw: Floats, norm: Floats) -> Floats:
        """raw^p."""
        return raw**self.exponent

    def gain_amounts(self, raw: Floats, norm: Floats) -> Floats:
        """The same amount."""
        return raw**self.exponent
