"""Plan monitor: message counts of a plan in windows, tested for drift from the prediction.

Aggregators report the notifications of each query since their process began; the difference of two such
numbers is counted. A process that began again counts from 0. A window in which not every part was heard of is not
judged: then messages are missing from the count that were sent, or would have been.
"""

import math
from collections.abc import Sequence

from slackwater.statistics.page_hinkley import PageHinkley, residual

_HOUR = 3_600_000_000


class Watch:
    """One plan from the moment at which it was put in force. `predicted`: messages an hour of each part."""

    def __init__(self, predicted: Sequence[float], window: int, now: int) -> None:
        self.predicted = list(predicted)
        self.counted = [0] * len(self.predicted)
        """Messages of each part in the windows that were judged."""
        self.windows = 0
        """How many have passed, judged or not."""
        self.time = 0
        """Of those that were judged."""
        self._window = window
        self._began = now
        self._known: list[tuple[int, int] | None] = [None] * len(self.predicted)
        self._fresh = [0] * len(self.predicted)
        self._heard = [False] * len(self.predicted)
        self._test = PageHinkley()

    def saw(self, place: int, generation: int, total: int) -> None:
        """Add the notification count of a part, as its aggregator reports it."""
        known = self._known[place]
        if known is not None:
            # A process that began again counts from 0; what it said before that was counted, but for the very last.
            before = known[1] if known[0] == generation and known[1] <= total else 0
            self._fresh[place] += total - before
            self._heard[place] = True
        self._known[place] = (generation, total)

    def pass_time(self, now: int) -> None:
        """Close the window if it is over."""
        if now < self._began + self._window:
            return
        taken, self._began = now - self._began, now
        self.windows += 1
        if all(self._heard):
            self.time += taken
            for place, fresh in enumerate(self._fresh):
                self.counted[place] += fresh
            predicted = sum(self.predicted) * taken / _HOUR
            # Of a part that is exact nothing can be predicted.
            if math.isfinite(predicted):
                self._test.add(residual(sum(self._fresh), predicted))
        self._fresh = [0] * len(self.predicted)
        self._heard = [False] * len(self.predicted)

    @property
    def drifted(self) -> bool:
        """Whether the counts have left the prediction."""
        return self._test.fired

    @property
    def measured(self) -> float | None:
        """Messages an hour that were counted; None before a window was judged."""
        return sum(self.counted) * _HOUR / self.time if self.time else None

    def expected_of(self, place: int, messages: float) -> tuple[float, float]:
        """Messages of a part that were counted, and those that so many an hour come to in the same time."""
        return self.counted[place], messages * self.time / _HOUR
