"""Event queue and simulated time, with clocks that are neither right nor equally fast."""

import heapq
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count


class Schedule:
    """Calls in order of their times; calls of the same time in the order in which they were asked for.

    >>> schedule = Schedule()
    >>> schedule.at(5, lambda: print("at", schedule.now))
    >>> schedule.run(until=9)
    at 5
    >>> schedule.now
    9
    """

    def __init__(self) -> None:
        self.now = 0
        self._heap: list[tuple[int, int, Callable[[], None]]] = []
        self._order = count()

    def at(self, when: int, call: Callable[[], None]) -> None:
        """Have a call made at a time, now if that is past."""
        heapq.heappush(self._heap, (max(when, self.now), next(self._order), call))

    def after(self, delay: int, call: Callable[[], None]) -> None:
        """Have a call made after a while."""
        self.at(self.now + delay, call)

    def run(self, until: int) -> None:
        """Let time pass."""
        while self._heap and self._heap[0][0] <= until:
            self.now, _, call = heapq.heappop(self._heap)
            call()
        self.now = max(self.now, until)


@dataclass(frozen=True, slots=True)
class SkewedClock:
    """A clock that began anywhere and runs a little too fast or too slow."""

    offset: int
    rate: float = 1.0

    def read(self, time: int) -> int:
        """What it shows at a time."""
        return self.offset + int(time * self.rate)

    def time_of(self, reading: int) -> int:
        """A time at which it showed no more than this, and within a few microseconds of when it did."""
        return int((reading - self.offset) / self.rate) - 2
