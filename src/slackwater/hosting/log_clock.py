"""The log clock: the time at which the writer of a log admits rows, and when it appends a tick, and of what time.

Contract

1.  *Log time is in the log.* Each batch of rows carries its stamp, the moment of admission. Hosts have the time of the
    latest tick (`TimePassed`): all have the same at a position.
2.  *It never goes back.* A stamp is later than the stamp before it, and not before the latest tick. A tick is later
    than the tick before it. While the wall clock is behind the log, for example set back before a restart, stamps move
    on by a microsecond each and ticks stand still, until the wall clock has caught up.
3.  *Ticks are at multiples.* The time of a tick is a multiple of a period, counted from 1970 in UTC. Each query finds
    the multiples of its own period among the ticks, whatever the other queries need.
4.  *No flood.* At most one tick is due at a time: the latest multiple. After a gap, in which no writer ran, there is
    one tick and not one for each multiple that was missed.
5.  *No ticks without need.* Without a period nothing is ever due.

Event times have no part in it: rows may come from any time. The clock is a value; the caller brings the wall time.

>>> stamp = LogClock(Instant(7_000_000)).stamp(Instant(6_500_000))
>>> stamp, LogClock(Instant(7_000_000)).stamped(stamp).stamp(Instant(6_600_000))
(7000000, 7000001)

>>> clock = LogClock(Instant(7_000_000))
>>> clock.due(Instant(6_500_000), {2_000_000}) is None
True
>>> tick = clock.due(Instant(13_500_000), {2_000_000, 5_000_000})
>>> tick, clock.after(tick).next_due(Instant(13_500_000), {2_000_000, 5_000_000})
(12000000, 14000000)
"""

from collections.abc import Collection
from dataclasses import dataclass, replace

from slackwater.core.types import Instant


@dataclass(frozen=True, slots=True)
class LogClock:
    """The clock of one log; see the module. A log without a tick is at 0."""

    last: Instant = Instant(0)  # noqa: RUF009  an immutable int
    """The time of the latest tick in the log."""
    latest_stamp: Instant = Instant(0)  # noqa: RUF009  an immutable int
    """The latest moment of admission in the log."""

    def now(self, wall: Instant) -> Instant:
        """Log time as the writer sees it: the wall clock's, but never before the latest tick and the latest stamp."""
        return max(self.last, self.latest_stamp, wall)

    def stamp(self, wall: Instant) -> Instant:
        """The moment of admission of rows that are admitted now: after every stamp before."""
        return max(self.last, Instant(self.latest_stamp + 1), wall)

    def stamped(self, stamp: Instant) -> "LogClock":
        """The clock once rows with this stamp are in the log."""
        return replace(self, latest_stamp=max(self.latest_stamp, stamp))

    def due(self, wall: Instant, periods: Collection[int]) -> Instant | None:
        """The tick to append now, for queries with these periods in microseconds; None where none is due."""
        now = self.now(wall)
        latest = max((now - now % period for period in periods), default=self.last)
        return Instant(latest) if latest > self.last else None

    def next_due(self, wall: Instant, periods: Collection[int]) -> Instant | None:
        """The wall time at which the next tick is due; None where there will be none."""
        if not periods:
            return None
        if self.due(wall, periods) is not None:
            return wall
        now = self.now(wall)
        return Instant(min(now - now % period + period for period in periods))

    def after(self, tick: Instant) -> "LogClock":
        """The clock once a tick is in the log."""
        return replace(self, last=max(self.last, tick))
