"""Fixed-interval polling: the baseline that ignores bounds."""

from collections.abc import Sequence

from slackwater.planning.pulling.scheduler_state import SchedulerState


class FixedInterval(SchedulerState):
    """Every item every so many ticks, whatever the bounds are.

    >>> from slackwater.core.bound import Bound
    >>> from slackwater.planning.pulling.base import PullQuery
    >>> scheduler = FixedInterval(2, every=3)
    >>> scheduler.register("q", PullQuery.total((0,), (1.0,), Bound(1, 0.9)))
    >>> scheduler.due(0)
    (0,)
    >>> scheduler.pulled(0, 0, 5.0)
    >>> scheduler.wake(0), scheduler.due(2), scheduler.due(3)
    (3, (), (0,))
    """

    def __init__(self, items: int, every: int, costs: Sequence[float] | None = None) -> None:
        super().__init__(items, costs, every)

    def due(self, now: int) -> tuple[int, ...]:
        """Name the items whose time has come."""
        self._reach(now)
        return self._fly(self._overdue())

    def wake(self, now: int) -> int:
        """The first tick at which an item is due."""
        times = [self.last[item] + self.longest for item in range(self.items) if self._free(item)]
        return max(now + 1, min(times, default=now + self.longest))
