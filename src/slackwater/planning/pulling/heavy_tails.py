"""Heavy-tailed errors: a mixture of a normal law and one three times as wide.

Real changes have heavier tails than a normal law: most are small, a few are far larger than their variance suggests. At
a fidelity of 99 % it is those few that count. So an error is taken to be normal with one deviation most of the time and
with `ROUGHER` times that a share ε of the time, the variance of both together being the one that is known. ε is learnt
from what pulls find, one step of expectation and maximisation each.
"""

import math

from slackwater.kernels.pull_risk import ROUGHER
from slackwater.planning.pulling.model_constants import FIRST_WILD, LEAST_WILD, MOST_WILD, WILD_STEP


class HeavyTails:
    """Running estimate of ε, the share of wild errors.

    >>> heavy_tails = HeavyTails()
    >>> for _ in range(200):
    ...     heavy_tails.learn(0.5)
    >>> calm = heavy_tails.wild
    >>> heavy_tails.learn(6.0)
    >>> calm < 0.02 < 0.02 + calm > heavy_tails.wild > calm
    True
    """

    def __init__(self) -> None:
        self.wild = FIRST_WILD

    def learn(self, surprise: float) -> None:
        """Take an error found by a pull, in deviations."""
        calm = 0.5 * surprise * surprise * (1.0 + (ROUGHER * ROUGHER - 1.0) * self.wild)
        ease = (1.0 - self.wild) * math.exp(-calm)
        rough = self.wild / ROUGHER * math.exp(-calm / (ROUGHER * ROUGHER))
        share = rough / (ease + rough) if ease + rough > 0.0 else 1.0
        self.wild = min(max(self.wild + WILD_STEP * (share - self.wild), LEAST_WILD), MOST_WILD)
