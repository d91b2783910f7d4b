"""Wall clock: the only module that reads the time of the operating system."""

import time

from slackwater.core.types import Instant


class WallClock:
    """The operating system's time in UTC, kept from running backwards when the system clock is set back."""

    def __init__(self) -> None:
        self._latest = 0

    def now(self) -> Instant:
        """The present instant; never before an earlier answer."""
        self._latest = max(self._latest, time.time_ns() // 1000)
        return Instant(self._latest)

    def sleep(self, seconds: float) -> None:
        """Wait."""
        if seconds > 0:
            time.sleep(seconds)
