"""Aggregator engine: queries kept within what their inherited error leaves of their bounds, suspended in doubt."""

from collections.abc import Callable, Iterable, Iterator
from http import HTTPStatus

import pyarrow as pa

from slackwater.aggregator.mirrored_items import MirroredItems
from slackwater.aggregator.suspension import Suspensions
from slackwater.core.errors import NotSupported, SlackwaterError
from slackwater.core.query import StandingQuery
from slackwater.core.types import Key, Scalar
from slackwater.log import Entry
from slackwater.server.rest.errors import RequestRefused
from slackwater.sessions.engine import NodeEngine
from slackwater.sessions.events import Event, QueryRegistered, QueryUnregistered


class AggregatorEngine(NodeEngine):
    """`doubt` gives the reason why an upstream, or a source, is in doubt; None where it is not."""

    def __init__(self, mirrored_items: MirroredItems, doubt: Callable[[str], str | None]) -> None:
        super().__init__()
        self.mirrored_items = mirrored_items
        self._suspensions = Suspensions(self._feeds, doubt)

    # ---- which queries, and within what

    def check(self, query: StandingQuery) -> None:
        """Refuse a bound query that cannot be kept over what is held here."""
        super().check(query)
        self.mirrored_items.check(query, self.schema(query.table))

    def held(self, query: StandingQuery) -> StandingQuery:
        """The query within what its floor leaves of its bound."""
        return self.mirrored_items.held(query, self.schema(query.table))

    def restore(self, state: bytes) -> int:
        """Restore the state from a snapshot, but keep the present mirrored items: they may be others, or tighter."""
        generation = super().restore(state)
        for one, query in self.kept():
            try:
                held = self.held(query)
                if self.host.query(one.number) != held:
                    self.host.register(one.number, held, self.position)
            except SlackwaterError:
                # It cannot be promised any more: a new request for it gets the refusal.
                self.host.unregister(one.number, self.position)
                self._standing.pop(one.number)
        return generation

    # ---- in doubt

    def _feeds(self, query: StandingQuery) -> frozenset[str]:
        return self.mirrored_items.feeds(query, self.schema(query.table))

    def events(self, entries: Iterable[Entry]) -> Iterator[list[Event]]:
        """Apply entries step by step; a query that begins in doubt begins suspended."""
        for events in super().events(entries):
            begun = [(event.number, event.query) for event in events if isinstance(event, QueryRegistered)]
            self._suspensions.ended(event.number for event in events if isinstance(event, QueryUnregistered))
            *others, applied = events
            yield [*others, *self._suspensions.begun(begun), applied]

    def registered(self) -> list[Event]:
        """The queries that are kept now, and which of them are suspended."""
        self._suspensions.forget()
        kept = [(one.number, query) for one, query in self.kept()]
        return [*super().registered(), *self._suspensions.begun(kept)]

    def reviewed(self) -> list[Event]:
        """Notifications of doubt that began or ended."""
        return [*self._suspensions.review()]

    # ---- rights of others to tables

    def check_rows(self, table: str) -> None:
        """Refuse rows for a table that is filled from elsewhere."""
        items = self.mirrored_items
        if items.mirrored(table) or table in items.polled or table in items.pulled:
            raise RequestRefused(
                HTTPStatus.CONFLICT, "in_use", f"the rows of {table} come from elsewhere: send them there"
            )

    def check_question(self, tables: Iterable[str]) -> None:
        """Refuse exact answers over approximate items."""
        for table in tables:
            if not self.mirrored_items.exact(table):
                raise NotSupported(
                    f"the rows of {table} are held within a bound here, or not all of them, and an answer would not "
                    "say so: subscribe to what you need, or ask the upstream"
                )

    # ---- the log of a table

    def keys(self, table: str) -> list[Key]:
        """The keys of the rows that there are."""
        if table not in self.tables:
            return []
        latest = self.host.latest(table)
        columns = [latest.rows.column(latest.schema.index(name)) for name in latest.schema.key]
        return list(zip(*(_plain(column) for column in columns), strict=True))

    def last_of(self, table: str, source: str) -> tuple[int, int]:
        """The latest event time of a table, and the greatest sequence number that a source has used there."""
        if table not in self.tables:
            return 0, -1
        latest = self.host.latest(table)
        return latest.latest_time, latest.last_sequence(source)


def _plain(column: pa.Array) -> list[Scalar]:
    values: list[Scalar] = (column.view(pa.int64()) if pa.types.is_timestamp(column.type) else column).to_pylist()
    return values
