"""Suspensions of queries: why answers are not followed, and re-checks of queries that exceed a limit.

Design
    A suspended query stays registered, but its changes are not sent: subscribers stay at the last position at which
    all was right. When it is resumed they get its whole state. A query may be suspended for two reasons at once: the
    engine suspends and resumes it; a query that outgrew a limit is suspended until a re-check finds it small enough.
"""

from typing import Protocol

from slackwater.core.errors import AnswerTooLarge
from slackwater.core.types import Position
from slackwater.dissemination.messages import Fact, Resumed, SharedFact, Suspended
from slackwater.sessions.events import Engine, QueriesResumed, QueriesSuspended
from slackwater.sessions.query_registry import QueryRegistry, RegisteredQuery
from slackwater.sessions.timers import Timers


class QueryPublisher(Protocol):
    """The queries of a node, and the facts that go to all subscribers of one."""

    position: Position
    queries: QueryRegistry

    @property
    def in_step(self) -> bool:
        """True while a step of the engine is not reported completely."""

    def broadcast(self, kept: RegisteredQuery, fact: SharedFact) -> None:
        """Send a fact of a query by every delivery."""

    def renew(self, kept: RegisteredQuery, *first: Fact) -> None:
        """Send all subscribers the whole answer, after these facts."""


class QuerySuspensions:
    """The suspended queries of a node; a re-check comes at every `interval`, in microseconds."""

    def __init__(self, publication: QueryPublisher, engine: Engine, timers: Timers, interval: int) -> None:
        self._publication = publication
        self._engine = engine
        self._timers = timers
        self._interval = interval
        self._outgrown: dict[int, str] = {}
        """Queries suspended because they exceed a limit, with the reason sent to clients."""
        self._scheduled = False
        """True while a re-check is scheduled."""

    def suspend(self, event: QueriesSuspended) -> None:
        """Suspend queries: present and new subscribers are notified with the reason."""
        for number in event.numbers:
            kept = self._publication.queries.get(number)
            if event.outgrown and kept is not None:
                self._outgrown[number] = event.why
                if kept.suspended is not None:
                    # The component that suspended it will resume it.
                    continue
            if kept is not None and kept.suspended != event.why:
                kept.suspended = event.why
                self._publication.broadcast(kept, Suspended(number, kept.epoch, event.why))

    def resume(self, event: QueriesResumed) -> None:
        """Resume queries: subscribers get their whole state."""
        for number in event.numbers:
            kept = self._publication.queries.get(number)
            if kept is None or kept.suspended is None:
                continue
            if number in self._outgrown:
                # It was suspended for two reasons, and one is left.
                self.suspend(QueriesSuspended((number,), self._outgrown[number]))
                continue
            kept.suspended = None
            if kept.since is None:
                continue  # its state is sent at the end of the step that replaces it
            self._publication.renew(kept, Resumed(number, kept.epoch))

    def _recheck(self, now: int) -> None:
        """Resume a query that no longer exceeds its limit. One at a time, because a re-check takes a while."""
        if not self._publication.in_step:
            number, why = next(iter(self._outgrown.items()))
            del self._outgrown[number]
            kept = self._publication.queries.get(number)
            if kept is not None:
                try:
                    self._engine.recheck(number)
                    # What changed meanwhile may not have been followed.
                    kept.recent.forget(self._publication.position)
                    kept.snapshots.clear()
                    if kept.suspended == why:
                        self.resume(QueriesResumed((number,)))
                except AnswerTooLarge:
                    self._outgrown[number] = why
        self._scheduled = bool(self._outgrown)
        if self._scheduled:
            self._timers.at(now + self._interval, self._recheck)

    def outgrow(self, kept: RegisteredQuery, why: str) -> None:
        """Suspend a query that is found to exceed a limit, unless it is suspended already."""
        if kept.suspended is None:
            self._outgrown[kept.number] = why
            self.suspend(QueriesSuspended((kept.number,), why))

    def schedule_recheck(self, now: int) -> None:
        """Schedule a re-check if a query exceeds its limit and none is scheduled."""
        if self._outgrown and not self._scheduled:
            self._scheduled = True
            self._timers.at(now + self._interval, self._recheck)
