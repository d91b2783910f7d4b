"""Clock: the interface through which time is an argument, and a manual clock.

Nothing in the deciding rooms asks the operating system what time it is: they are handed a `Clock`. The real
one is `slackwater.wallclock.WallClock`; `ManualClock` is for tests and simulations.
"""

from typing import Protocol

from slackwater.core.types import Instant

MOST_AHEAD = 100 * 365 * 86_400
"""Seconds that an event time can be allowed to be ahead of the log clock."""


class Clock(Protocol):
    """Source of the present time, and of waits."""

    def now(self) -> Instant:
        """The present instant; never before an earlier answer."""
        ...

    def sleep(self, seconds: float) -> None:
        """Return when this many seconds have passed on this clock."""
        ...


class ManualClock:
    """A clock that moves only when a test advances it or sleeps on it.

    >>> clock = ManualClock(Instant(0))
    >>> clock.sleep(1.5)
    >>> clock.now()
    1500000
    """

    def __init__(self, start: Instant = Instant(0)) -> None:  # noqa: B008  an immutable int
        self._now = start

    def now(self) -> Instant:
        """The present instant."""
        return self._now

    def sleep(self, seconds: float) -> None:
        """Advance by that much at once."""
        if seconds > 0:
            self._now = Instant(self._now + round(seconds * 1_000_000))
