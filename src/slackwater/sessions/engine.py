"""Engine adapter of a serving node: steps of the log as events for the session state."""

from collections import Counter
from collections.abc import Iterable, Iterator

import pyarrow as pa

from slackwater.core.lineage import Lineage
from slackwater.core.query import StandingQuery
from slackwater.core.region import Region
from slackwater.core.schema import TableSchema
from slackwater.hosting.engine import QueryEngine
from slackwater.hosting.step import Registration, Step
from slackwater.log import Entry
from slackwater.processing.base import Answer, Notifications
from slackwater.sessions.events import (
    Applied,
    Event,
    QueriesPresent,
    QueriesResumed,
    QueriesSuspended,
    QueryRegistered,
    QueryUnregistered,
)
from slackwater.sessions.registrar import Registrar

MOST_RESULTS = 2_000_000
"""Changes of joins of one shape in one step; beyond that whole answers are sent instead."""
MOST_STEPS = 50_000_000
"""Pairs of rows that are looked at for all joins in one step, before those that take most are suspended."""
_OUTGROWN = "the table has got another column; the cache is filled again with it"


class NodeEngine(QueryEngine):
    """Implements `sessions.events.Engine`; see `hosting.engine` for what a step is."""

    def __init__(self) -> None:
        super().__init__()
        self.host.limit(MOST_RESULTS, MOST_STEPS)
        self.registrar = Registrar(self)
        self.lineage = Lineage()
        """The incarnations of the log whose records are applied."""
        self.notified: Counter[int] = Counter()
        """Notifications of each query since this process began."""
        self.notifications = 0

    # ---- what the state of the sessions asks

    def schema(self, table: str) -> TableSchema:
        """The table that a bound query reads, or what its pairs of rows go by."""
        return self.host.schema(table)

    def bind(self, sql: str) -> tuple[StandingQuery, str, str | None]:
        """A subscription's query, as on any host, unless its answer or what it takes to keep it is too large."""
        bound = super().bind(sql)
        self.check(bound[0])
        return bound

    def check(self, query: StandingQuery) -> None:
        """Refuse a bound query that cannot be kept here."""
        self.check_size(query)

    def answer(self, number: int) -> Answer:
        """The answer of a registered query, as last published."""
        self.host.check_size(self.host.query(number))
        return self.host.answer(number)

    def recheck(self, number: int) -> None:
        """Resume a query that grew too large; `AnswerTooLarge` if it still is."""
        self.host.check_size(self.host.query(number))
        self.host.wake(number)

    def select(self, table: str, region: Region) -> pa.RecordBatch:
        """The rows of a table that lie in a region."""
        self.check_question((table,))
        return self.host.select(table, region)

    # ---- what may be done with tables

    def check_rows(self, table: str) -> None:
        """Refuse rows for a table that is filled in another way; here every table takes rows."""

    def check_question(self, tables: Iterable[str]) -> None:
        """Refuse to answer a question about tables whose rows are not exact; here they are."""

    # ---- steps as events

    def events(self, entries: Iterable[Entry]) -> Iterator[list[Event]]:
        """Apply entries step by step; the caller delivers each step before it takes the next."""
        for step in self.steps(entries):
            self._count(step)
            *others, applied = events_of(step)
            yield [*others, *self._outgrown(step), *self._halted(step.notifications.halted), applied]

    def forget_counts(self) -> None:
        """Reset the counts: replayed notifications were not sent."""
        self.notified.clear()
        self.notifications = self.applied_rows = 0

    def registered(self) -> list[Event]:
        """Registration events of the present queries, for a new session state."""
        kept = [one for one in self.registrations.values() if self.keeps(one)]
        events: list[Event] = [QueriesPresent(tuple(kept))]
        narrow = tuple(one.number for one in kept if _may_push(one) and self._narrow(self.query(one.number)))
        if narrow:
            events.append(QueriesSuspended(narrow, _OUTGROWN))
        return [*events, *self._halted(self.host.halted())]

    def _halted(self, numbers: Iterable[int]) -> list[Event]:
        why = self.host.halted()
        return [QueriesSuspended((number,), why[number], outgrown=True) for number in numbers]

    def _outgrown(self, step: Step) -> list[Event]:
        """Suspend caches that lack a new column of their table, until they have new labels."""
        if not step.defined and not step.registered:
            return []
        tables = {schema.name for schema in step.defined}
        kept = (one for one in self.registrations.values() if tables and self.keeps(one) and _may_push(one))
        narrow = [
            one.number for one in kept if (query := self.query(one.number)).table in tables and self._narrow(query)
        ]
        whole = [
            one.number
            for one, query in step.registered
            if one.epoch and query.pushed is not None and not self._narrow(query)
        ]
        events: list[Event] = []
        if narrow:
            events.append(QueriesSuspended(tuple(narrow), _OUTGROWN))
        if whole:
            events.append(QueriesResumed(tuple(whole)))
        return events

    def _narrow(self, query: StandingQuery) -> bool:
        if query.pushed is None:
            return False
        return query.columns != tuple(column.name for column in self.schema(query.table).columns)

    def _count(self, step: Step) -> None:
        self.notifications += len(step.notifications)
        count_queries(self.notified, step.notifications)
        for one in step.unregistered:
            self.notified.pop(one.number, None)


def _may_push(one: Registration) -> bool:
    """True if only a part of a query's answer may be pushed: SQL asks for all of it, so such a query has another text.

    Answered without decoding the query, as a node may have a hundred thousand.
    """
    return not one.text.startswith("SUBSCRIBE ")


def count_queries(notified: Counter[int], notifications: Notifications) -> None:
    """Add a step's notifications to the count of each query."""
    if notifications.values is not None:
        notified.update(notifications.values.queries.tolist())
    for rows in notifications.rows:
        notified.update(rows.queries.tolist())


def events_of(step: Step) -> list[Event]:
    """Events of a step for the session state."""
    return [
        *(_registered(one, query) for one, query in step.registered),
        *(QueryUnregistered(one.number) for one in step.unregistered),
        Applied(step.notifications),
    ]


def _registered(one: Registration, query: StandingQuery) -> QueryRegistered:
    return QueryRegistered(one, query)
