"""Safety factor: a feedback-controlled factor on the bound that follows the delivered fidelity.

Every `window` ticks FD = delivered − desired fidelity, in points of percent, and sf ← sf·e^(γ·FD): below the desired
fidelity the limit sf·B shrinks. γ grows (÷ 0.98) when FD had the same sign in two windows running and shrinks (× 0.98)
otherwise. Delivered is what was delivered from the beginning. That sf starts at 1 and FD is in percent is our choice.

References
    R. Gupta, A. Puri, K. Ramamritham, Executing incoherency bounded continuous queries at web data aggregators,
    WWW 2005, sections 4.1 and 4.2.
"""

import math
from dataclasses import dataclass

WINDOW = 200
FIRST_GAMMA = 0.1
LEARNING_RATE = 0.98
LEAST, MOST = 1e-3, 1e3


@dataclass(slots=True)
class SafetyFactor:
    """One query's factor.

    >>> safety = SafetyFactor(desired=0.98)
    >>> safety.observe(kept=97, counted=100)
    >>> round(safety.factor, 4), round(safety.gamma, 4)
    (0.9048, 0.098)
    """

    desired: float
    factor: float = 1.0
    gamma: float = FIRST_GAMMA
    last: float = 0.0

    def observe(self, kept: float, counted: float) -> None:
        """Adjust the factor at the end of a window; the counts of kept and of all ticks run from the beginning."""
        if counted <= 0.0:
            return
        difference = 100.0 * (kept / counted - self.desired)
        self.factor = min(max(self.factor * math.exp(self.gamma * difference), LEAST), MOST)
        self.gamma = self.gamma / LEARNING_RATE if difference * self.last > 0.0 else self.gamma * LEARNING_RATE
        self.last = difference
