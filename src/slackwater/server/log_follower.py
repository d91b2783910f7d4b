"""Log follower of a node: reads on in the log, applies what it finds, and notices when it cannot or must not.

A log that cannot be read for a while, because the system refuses or its servers do not answer, is tried again. Once
that takes longer than a lease, the age of all answers is unknown, and no lease is renewed. A log that another process
writes may besides be replaced: it is read again and again, and the incarnations it lists say whether it went on.

Applying has a price for each step, whatever its rows. So steps of the log that this process writes are some way apart:
the first is applied at once, and what is appended within `APART_SECONDS` is the next step.

Rows that this process has just made durable are handed over as they are and not read back from the disk. Where
anything is missing between what was applied and what was handed over, the log is read.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress

from slackwater.core.errors import HistoryReplaced, LogAway, LogError, PositionGone, SlackwaterError
from slackwater.core.hosts import HostKind
from slackwater.core.lineage import Lineage
from slackwater.core.query import StandingQuery
from slackwater.core.system_errors import system_error
from slackwater.core.types import Position
from slackwater.kinds.registry import kept_as, query_of
from slackwater.log import Entry, Log, Quarantined, Registered, TimePassed, Updates
from slackwater.server.lanes.base import Lane
from slackwater.server.readable_entries import ReadableEntries
from slackwater.sessions.engine import NodeEngine
from slackwater.sessions.events import Event, IncarnationBegun

_report = logging.getLogger("slackwater.server")

FOLLOW_SECONDS = 0.01
"""Poll interval of a log that another process writes."""
APART_SECONDS = 0.003
"""Least time between the beginnings of two steps of the own log: rows that come one by one share a step."""
AWAY_SECONDS = 0.5
"""Pause before the next poll of a log that could not be read."""
MOST_HANDED = 200_000
"""Rows that wait to be applied without being read again."""
_AS_THEY_ARE = (Updates, Quarantined, TimePassed)
"""Records that are equal to what is decoded of them."""
ROWS_AHEAD = 50_000
"""Rows that are fetched at a time from a log that another process writes."""


class LogFollower:
    """Keeps an engine at the end of a log. `name` is that of the log, for reports; `lease` is in microseconds."""

    def __init__(
        self,
        log: Log,
        name: str,
        engine: NodeEngine,
        lanes: Mapping[HostKind, Lane],
        lease: int,
        *,
        writable: bool,
        afar: bool,
    ) -> None:
        self.told: Callable[[list[Event]], None] = lambda events: None
        """Called with the events of each step that was applied."""
        self.more = asyncio.Event()
        """Set when this process has appended to the log."""
        self.log = log
        """The log that is read."""
        self._name = name
        self._engine = engine
        self._lanes = lanes
        self._lease = lease
        self._writable = writable
        self._afar = afar
        self._end = engine.position
        self._handed: list[Entry] = []
        self.away_since: float | None = None
        """When the log was found unreadable first, by the monotonic clock."""
        self._doubt: str | None = None

    @property
    def end(self) -> Position:
        """End of the log, as it was seen last where asking takes time."""
        return self._end if self._afar and not self._writable else self.log.end

    async def run(self) -> None:
        """Follow until cancelled, or until the log is another one (`HistoryReplaced`)."""
        while True:
            self.more.clear()
            began = time.monotonic()
            try:
                applied = await self._step()
            except HistoryReplaced:
                raise
            except (SlackwaterError, OSError) as error:
                if not await self._may_pass(error):
                    raise
                await self._unreadable(error)
                continue
            if applied:
                if self._writable and not self._afar:
                    await asyncio.sleep(max(began + APART_SECONDS - time.monotonic(), 0))
                continue
            self.judge(None)
            if self._writable:
                await self.more.wait()
            else:
                await asyncio.sleep(FOLLOW_SECONDS)

    def hand(self, entries: Sequence[Entry]) -> None:
        """Take over entries that this process has made durable."""
        # A log on a bus is always read.
        if self._afar or not entries or not all(isinstance(entry.record, _AS_THEY_ARE) for entry in entries):
            return
        handed = self._handed
        if handed and (handed[-1].end != entries[0].first or entries[-1].end - handed[0].first > MOST_HANDED):
            handed.clear()
        self._handed += entries

    def check_history(self, lineage: Lineage, end: Position) -> None:
        """Take over the incarnations of the log, or raise `HistoryReplaced` if it lacks what was applied."""
        engine = self._engine
        if not engine.lineage.went_on(lineage, engine.position, end):
            raise HistoryReplaced(
                f"the log at {self._name} was replaced, as by a restore from a copy: it does not have all that was "
                f"read of it up to position {engine.position}"
            )
        begun, engine.lineage = lineage.current != engine.lineage.current, lineage
        if begun:
            for lane in self._lanes.values():
                lane.sessions.handle(IncarnationBegun())

    async def _step(self) -> bool:
        """Apply what there is; False where there is nothing."""
        if self._writable and not self._afar:
            return await self._apply_own()
        if self._afar:
            entries, self._end, lineage = await asyncio.to_thread(self._fetch)
        else:
            entries, self._end, lineage = self._fetch()
        if not self._writable:
            before = self._engine.lineage
            self.check_history(lineage, self._end)
            if lineage != before:
                # The entries may have been read before the log was replaced. Only between two equal looks at the
                # incarnations do they belong to them.
                return True
        if not entries:
            return False
        if self._afar or any(one.cold for one in self._engine.host.operators):
            await self._warm_up(entries)
        await self._apply(entries)
        return True

    async def _apply_own(self) -> bool:
        if self.log.end <= self._engine.position:
            return False
        handed, self._handed = self._handed, []
        if handed and handed[0].first == self._engine.position:
            await self._apply(handed)
            return True
        entries = ReadableEntries(self.log.read(self._engine.position))
        await self._apply(entries)
        if entries.failure is not None:
            await self._unreadable(entries.failure)
        return True

    async def _apply(self, entries: Iterable[Entry]) -> None:
        """Apply entries step by step, and let others have their turn in between."""
        for events in self._engine.events(entries):
            self.told(events)
            await asyncio.sleep(0)

    def _fetch(self) -> tuple[list[Entry], Position, Lineage]:
        """The next entries, the end of the log, and its incarnations when the entries had been read."""
        start, end = self._engine.position, self.log.end
        entries = list(self.log.read(start, Position(min(end, start + ROWS_AHEAD)))) if end > start else []
        return entries, end, self._engine.lineage if self._writable else self.log.lineage

    async def _warm_up(self, entries: Iterable[Entry]) -> None:
        """Have compiled what a first query needs before it is taken in: it was asked for at another node."""
        for query in _registered(entries):
            with suppress(SlackwaterError):
                if self._engine.cold(query):
                    await asyncio.to_thread(self._engine.host.warm_up, query)

    # ---- trouble

    async def _may_pass(self, error: Exception) -> bool:
        """Whether the log may be readable the next time; a log of another process may be being replaced."""
        if isinstance(error, LogAway) or system_error(error) is not None:
            return True
        if self._writable or not isinstance(error, LogError):
            return False
        try:
            lineage, start, end = await asyncio.to_thread(lambda: (self.log.lineage, self.log.start, self.log.end))
        except (LogError, OSError):
            return True
        self.check_history(lineage, end)
        return not isinstance(error, PositionGone) or self._engine.position >= start

    async def _unreadable(self, error: Exception) -> None:
        _report.warning("the log cannot be read, and is tried again: %s", error)
        self.judge(f"the log cannot be read: {error}")
        await asyncio.sleep(AWAY_SECONDS)

    def judge(self, why: str | None) -> None:
        """Put all lanes in doubt while the log could not be read for longer than a lease."""
        now = time.monotonic()
        self.away_since = None if why is None else self.away_since or now
        late = self.away_since is not None and (now - self.away_since) * 1_000_000 > self._lease
        doubt = why if late else None
        if (doubt is None) != (self._doubt is None):
            self._doubt = doubt
            for lane in self._lanes.values():
                lane.doubt(doubt)


def _registered(entries: Iterable[Entry]) -> Iterator[StandingQuery]:
    """The queries that are to be kept here from these entries on."""
    for entry in entries:
        record = entry.record
        if isinstance(record, Registered) and record.host == HostKind.NODE.value and record.query is not None:
            with suppress(SlackwaterError):
                yield kept_as(query_of(record.query, record.text))
