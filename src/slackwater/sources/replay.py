"""Replay: re-emits the rows of a source at the pace of their event times.

Design
    A row is *due* when as much time has passed on the clock since the replay began as passed in the data between
    the first row and this one, divided by the speed. A row is never handed on before it is due. Rows that become due
    within `interval` of each other travel together, when the last of them is due; so a row is late by at most
    `interval`, and a consumer gets some ten batches a second instead of one for each row.

    Time in the data may go back (rows out of order) or be unreadable: such a row is due at once after the row before
    it. The pace follows the latest time seen so far.

    *Gaps*: nights and weekends. No wait between two rows is longer than `longest_gap` seconds on the clock. By
    default that is a minute of the data's own time, and at least one second: at speed 1 a night takes a minute, at
    speed 60 a second, and data that come every minute or faster keep their rhythm at every speed. Data that come
    more slowly are hurried on; pass `math.inf` for the true gaps.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from slackwater.core.arrival import Arrival
from slackwater.core.arrow import EVENT_TIME
from slackwater.core.clock import Clock
from slackwater.core.errors import SourceError
from slackwater.core.schema import TableSchema
from slackwater.sources.base import Source
from slackwater.sources.times import UNKNOWN, instants

FULL_SPEED = math.inf
_SECOND = 1_000_000
_USUAL_GAP = 60.0


@dataclass(frozen=True, slots=True)
class Pace:
    """Pace of a replay: `speed` times as fast as it happened, or `rate` rows a second whatever the times say.

    >>> Pace(speed=60).gap
    1.0
    """

    speed: float = 1.0
    rate: float | None = None
    longest_gap: float | None = None
    interval: float = 0.1

    def __post_init__(self) -> None:
        if not self.speed > 0:
            raise SourceError(f"the speed of a replay must be above 0, not {self.speed}")
        if self.rate is not None and not self.rate > 0:
            raise SourceError(f"the rate of a replay must be above 0 rows a second, not {self.rate}")
        if self.longest_gap is not None and not self.longest_gap >= 0:
            raise SourceError(f"the longest gap of a replay must be 0 seconds or more, not {self.longest_gap}")
        if not 0 < self.interval < math.inf:
            raise SourceError(f"the interval of a replay must be above 0 seconds, not {self.interval}")

    @property
    def gap(self) -> float:
        """The longest wait between two rows, in seconds on the clock."""
        if self.longest_gap is not None:
            return self.longest_gap
        return max(1.0, _USUAL_GAP / self.speed)

    @property
    def unpaced(self) -> bool:
        """True if rows are emitted without any wait."""
        return self.rate is None and self.speed == FULL_SPEED


class Replay:
    """A source at a pace; ends after `seconds` on the clock or `rows` rows, if those are given."""

    def __init__(
        self,
        source: Source,
        clock: Clock,
        pace: Pace | None = None,
        *,
        seconds: float | None = None,
        rows: int | None = None,
    ) -> None:
        self._source = source
        self._clock = clock
        self._pace = pace or Pace()
        self._seconds = math.inf if seconds is None else seconds
        self._rows = rows
        if math.isnan(self._seconds) or self._seconds < 0 or (rows is not None and rows < 0):
            raise SourceError(f"a replay lasts 0 or more seconds and rows, not {seconds} and {rows}")

    @property
    def schema(self) -> TableSchema | None:
        """The table of the source."""
        return self._source.schema

    def arrivals(self) -> Iterator[Arrival]:
        """Yield the source's arrivals, cut and delayed; the same rows in the same order."""
        start = self._clock.now()
        schedule = _Schedule(self._pace)
        left = self._rows
        for arrival in self._source.arrivals():
            if left == 0 or self._elapsed(start) >= self._seconds:
                return
            if left is not None and arrival.batch.num_rows > left:
                arrival = cut(arrival, 0, left)
            if left is not None:
                left -= arrival.batch.num_rows
            if self._pace.unpaced or arrival.batch.num_rows == 0:
                yield arrival
                continue
            due = schedule.due(self._times(arrival))
            for first, after in windows(due, self._pace.interval):
                last = float(due[after - 1])
                if last >= self._seconds:
                    yield from self._remainder(arrival, due, first, start)
                    return
                self._wait(start, last)
                yield cut(arrival, first, after)

    def _remainder(self, arrival: Arrival, due: npt.NDArray[np.float64], first: int, start: int) -> Iterator[Arrival]:
        """What is still due before the time is up, then wait for the end."""
        after = int(np.searchsorted(due, self._seconds))
        if after > first:
            self._wait(start, float(due[after - 1]))
            yield cut(arrival, first, after)
        self._wait(start, self._seconds)

    def _times(self, arrival: Arrival) -> npt.NDArray[np.int64]:
        schema = self._source.schema
        for name in (schema.event_time if schema else None, EVENT_TIME):
            if name is not None and name in arrival.batch.schema.names:
                return instants(arrival.batch.column(name), arrival.timezone)
        return np.full(arrival.batch.num_rows, UNKNOWN, np.int64)

    def _elapsed(self, start: int) -> float:
        return (self._clock.now() - start) / _SECOND

    def _wait(self, start: int, until: float) -> None:
        """Wait until this many seconds after the start; up to a microsecond too long rather than too short."""
        while (missing := until - self._elapsed(start)) > 0:
            self._clock.sleep(math.ceil(missing * _SECOND) / _SECOND)


class _Schedule:
    """Turns event times into seconds after the start, never going back."""

    def __init__(self, pace: Pace) -> None:
        self._pace = pace
        self._latest: int | None = None
        self._due = 0.0
        self._count = 0

    def due(self, times: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
        """When each row is due."""
        if self._pace.rate is not None:
            ordinals = np.arange(self._count, self._count + len(times))
            self._count += len(times)
            return ordinals / self._pace.rate
        known = times[times != UNKNOWN]
        if not len(known):
            return np.full(len(times), self._due)
        if self._latest is None:
            self._latest = int(known[0])
        # UNKNOWN is the smallest number, so the running maximum passes over it.
        latest = np.maximum.accumulate(np.concatenate(([self._latest], times)))
        waits = np.minimum(np.diff(latest) / (_SECOND * self._pace.speed), self._pace.gap)
        due: npt.NDArray[np.float64] = self._due + np.cumsum(waits)
        self._latest, self._due = int(latest[-1]), float(due[-1])
        return due


def windows(due: npt.NDArray[np.float64], interval: float) -> Iterator[tuple[int, int]]:
    """Cut rows that never become due earlier than their predecessors into stretches of at most an interval.

    >>> list(windows(np.array([0.0, 0.05, 0.2, 0.25, 0.9]), 0.1))
    [(0, 2), (2, 4), (4, 5)]
    """
    first = 0
    while first < len(due):
        after = max(first + 1, int(np.searchsorted(due, due[first] + interval)))
        yield first, after
        first = after


def cut(arrival: Arrival, first: int, after: int) -> Arrival:
    """Take a stretch of an arrival; what was refused goes with its beginning."""
    if first == 0 and after == arrival.batch.num_rows:
        return arrival
    return replace(
        arrival,
        batch=arrival.batch.slice(first, after - first),
        rows=None if arrival.rows is None else arrival.rows.slice(first, after - first),
        refused=arrival.refused if first == 0 else (),
    )
