"""Page–Hinkley test: detects that the mean of a sequence departs from its prediction.

What is added is the *residual* of each window: (measured − predicted) / √max(predicted, 1), about one wide where
messages come by chance at the predicted rate. Residuals are added up, each lessened by a tolerance; the test fires when
the sum has risen from its lowest point by the threshold. The mirror image finds a fall. In the usual form the mean of
the past stands where 0 stands here: a prediction is there from the beginning, so nothing has to be learnt first.

The state is two numbers, and nothing is remembered of single windows.

References: E. S. Page, Continuous inspection schemes, Biometrika 41 (1954); D. V. Hinkley, Inference about the
change-point from cumulative sum tests, Biometrika 58 (1971).

>>> test = PageHinkley(tolerance=0.5, threshold=5.0)
>>> any(test.add(residual) for residual in (0.3, -0.8, 0.9, -0.2) * 50)
False
>>> [test.add(2.0) for _ in range(4)]
[False, False, False, True]
"""

import math


def residual(measured: float, predicted: float) -> float:
    """How far a count is from what was predicted, in units of what chance alone makes it vary.

    >>> residual(measured=35, predicted=25)
    2.0
    """
    return (measured - predicted) / math.sqrt(max(predicted, 1.0))


class PageHinkley:
    """Two-sided test for a rise or a fall. Once fired it stays fired until `reset`."""

    def __init__(self, tolerance: float = 0.5, threshold: float = 5.0) -> None:
        if not (tolerance >= 0 and threshold > 0):
            raise ValueError(f"a tolerance is 0 or more and a threshold above 0, not {tolerance} and {threshold}")
        self._tolerance = tolerance
        self._threshold = threshold
        self.reset()

    def reset(self) -> None:
        """Reset the test for a new prediction."""
        self._risen = self._fallen = 0.0

    def add(self, value: float) -> bool:
        """Add one residual; True if the mean has changed."""
        # The distance of the sum from its lowest point, kept as one number: it never goes below 0.
        self._risen = max(0.0, self._risen + value - self._tolerance)
        self._fallen = max(0.0, self._fallen - value - self._tolerance)
        return self.fired

    @property
    def fired(self) -> bool:
        """True if the test has fired."""
        return max(self._risen, self._fallen) > self._threshold
