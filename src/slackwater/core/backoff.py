"""Exponential back-off with jitter: how long a caller waits after the n-th failure in a row."""

import math
from collections.abc import Callable
from dataclasses import dataclass

from slackwater.core.errors import SourceError


@dataclass(frozen=True, slots=True)
class Backoff:
    """`first` × `factor`ⁿ⁻¹, at most `most`, then jittered; in the caller's unit of time.

    Jitter takes off up to that share at random, so that many callers that failed together do not come back together.

    >>> steady = Backoff(first=0.5, factor=2, most=3, jitter=0)
    >>> [steady.delay(failures, lambda: 0.9) for failures in (1, 2, 3, 4, 5)]
    [0.5, 1.0, 2.0, 3.0, 3.0]
    """

    first: float = 1.0
    factor: float = 2.0
    most: float = 300.0
    jitter: float = 0.5

    def __post_init__(self) -> None:
        if not (0 < self.first <= self.most < math.inf and self.factor >= 1 and 0 <= self.jitter < 1):
            raise SourceError(
                f"a back-off needs 0 < first ≤ most, a factor of 1 or more and a jitter from 0 to below 1, not {self}"
            )

    def delay(self, failures: int, chance: Callable[[], float]) -> float:
        """The wait after this many failures in a row; `chance` gives numbers from 0 to below 1."""
        # The logarithm keeps factor ** failures from overflowing in a caller that fails for days.
        growth = (failures - 1) * math.log(self.factor)
        whole = self.most if growth > math.log(self.most / self.first) else self.first * math.exp(growth)
        return whole * (1 - self.jitter * chance())
