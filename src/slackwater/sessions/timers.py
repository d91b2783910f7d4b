"""Timer heap: scheduled calls; a tick costs what is due, not what there is."""

import heapq
from collections.abc import Callable, Iterator
from itertools import count


class Timers:
    """Scheduled calls. A call that is obsolete detects that itself when it runs.

    >>> timers = Timers()
    >>> timers.at(20, print)
    >>> timers.at(10, print)
    >>> timers.next, [due for due, _ in timers.due(15)], timers.next
    (10, [10], 20)
    """

    __slots__ = ("_heap", "_order")

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, Callable[[int], None]]] = []
        self._order = count()

    def at(self, due: int, call: Callable[[int], None]) -> None:
        """Schedule a call; it gets the time as its argument."""
        heapq.heappush(self._heap, (due, next(self._order), call))

    @property
    def next(self) -> int | None:
        """When the next call is due."""
        return self._heap[0][0] if self._heap else None

    def due(self, now: int) -> Iterator[tuple[int, Callable[[int], None]]]:
        """Take the calls that are due, in order."""
        while self._heap and self._heap[0][0] <= now:
            due, _, call = heapq.heappop(self._heap)
            yield due, call
