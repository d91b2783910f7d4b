"""Error bound: how far an answer may be from the truth, and in which share of the time."""

import math
from dataclasses import dataclass

from slackwater.core.errors import AlgebraError


@dataclass(frozen=True, slots=True)
class Bound:
    """`WITHIN within FIDELITY fidelity`: |value − truth| ≤ within for at least this share of the time.

    Fidelity 1 means always. A bound of 0 means exact.

    >>> Bound(2400, 0.98).holds(value=1000.0, truth=3000.0)
    True
    """

    within: float
    fidelity: float = 1.0

    def __post_init__(self) -> None:
        if not (math.isfinite(self.within) and self.within >= 0):
            raise AlgebraError(f"WITHIN must be a finite number of 0 or more, not {self.within}")
        if not 0 < self.fidelity <= 1:
            raise AlgebraError(f"FIDELITY must be above 0 % and at most 100 %, not {self.fidelity * 100:g} %")

    @property
    def always(self) -> bool:
        """True if the bound must hold all the time."""
        return self.fidelity == 1.0

    def holds(self, value: float, truth: float) -> bool:
        """True if a shown value is within the bound of the truth."""
        return abs(value - truth) <= self.within


EXACT = Bound(0.0)
