"""Lane routing: assigns queries to hosts; each lane's view of the engine at that host's own log position.

What a session is told is right as of one position. Queries on a node follow the log closely, those on Spark by
micro-batches; in one session the quick ones would have to wait for the slow ones. So a connection is for one lane, and
who asks in it for a query of another is told where to ask.
"""

from collections.abc import Mapping
from typing import Protocol

import pyarrow as pa

from slackwater.core.errors import NotSupported, SchemaError, SlackwaterError
from slackwater.core.hosts import HostKind, Placement
from slackwater.core.query import StandingQuery
from slackwater.core.region import Region
from slackwater.core.schema import TableSchema
from slackwater.core.types import Position
from slackwater.hosting.replica import Replica
from slackwater.kinds.registry import answer_schema, kind_of
from slackwater.processing.base import Answer
from slackwater.sessions.engine import NodeEngine
from slackwater.sessions.events import Elsewhere


class Plans(Protocol):
    """Says which queries are planned over a network of aggregators."""

    def takes(self, query: StandingQuery) -> bool:
        """Whether a query is better planned than kept here."""
        ...

    def could_take(self, query: StandingQuery) -> bool:
        """Whether it can be planned at all."""
        ...


class Routing:
    """Texts to queries, and queries to hosts. All registrations are known to the engine of the node."""

    def __init__(
        self,
        engine: NodeEngine,
        placement: Placement,
        lanes: frozenset[HostKind] = frozenset(),
        plans: Plans | None = None,
    ) -> None:
        self._engine = engine
        self.placement = placement
        self.lanes = lanes
        self.plans = plans

    def host_of(self, query: StandingQuery, name: str | None) -> HostKind:
        """Who keeps a query, or would: whoever has its name, else a network that takes it, else whoever the rule says.

        A query with a name is kept also while nobody listens, so there is nobody to add parts up: it is not planned.
        """
        known = None if name is None else self._engine.named(name)
        if known is not None:
            return known.host
        if name is None and self.plans is not None and self.plans.takes(query):
            return HostKind.NETWORK
        placed, hosts = self.placement.of(query.table, name), kind_of(query).hosts
        return placed if placed in hosts else HostKind.NODE

    def bind(self, sql: str, lane: HostKind) -> tuple[StandingQuery, str, str | None]:
        """What a text means to a lane; `Elsewhere` where it is for another."""
        known = self._engine.named(sql.strip())
        if known is not None and known.host is not lane:
            raise self._to(known.host)
        query, text, name = self._engine.bind(sql)
        if lane is HostKind.NETWORK and name is None and self.plans is not None and self.plans.could_take(query):
            # Who comes back may be here before the aggregators have been heard of.
            return query, text, name
        host = self.host_of(query, name)
        if host is not lane:
            raise self._to(host)
        return query, text, name

    def elsewhere(self, name: str, lane: HostKind) -> HostKind | None:
        """The host that has this name, if it is another than a lane's."""
        known = self._engine.named(name)
        return None if known is None or known.host is lane else known.host

    def _to(self, host: HostKind) -> SlackwaterError:
        if host in self.lanes:
            return Elsewhere(host)
        return SlackwaterError(
            f"this query is kept by the host {host.value!r}, which this server does not have: start it with one, or "
            f"drop the subscription"
        )


class EngineView:
    """The engine of the queries that the node keeps itself, or plans (`host`), as their sessions see it."""

    def __init__(self, engine: NodeEngine, routing: Routing, host: HostKind = HostKind.NODE) -> None:
        self._engine = engine
        self._routing = routing
        self._host = host

    @property
    def position(self) -> Position:
        """The end of the last step that was applied."""
        return self._engine.position

    def bind(self, sql: str) -> tuple[StandingQuery, str, str | None]:
        """A subscription's query, its text in normal form without the name, and its name where it has one."""
        return self._routing.bind(sql, self._host)

    def elsewhere(self, name: str) -> HostKind | None:
        """The host that has a name, if it is another one."""
        return self._routing.elsewhere(name, self._host)

    def schema(self, table: str) -> TableSchema:
        """The table that a bound query reads."""
        return self._engine.schema(table)

    def answer(self, number: int) -> Answer:
        """All that has been said of a query that is registered."""
        return self._engine.answer(number)

    def look(self, number: int) -> None:
        """Refuse a query that takes too much still."""
        self._engine.look(number)

    def select(self, table: str, region: Region) -> pa.RecordBatch:
        """The rows of a table that lie in a region."""
        return self._engine.select(table, region)


class ReplicaView:
    """The same of the queries that another host keeps: what it has said stands for the operators."""

    def __init__(self, replica: Replica, routing: Routing, host: HostKind = HostKind.SPARK) -> None:
        self.replica = replica
        self._routing = routing
        self._host = host

    @property
    def position(self) -> Position:
        """The end of the last step that was taken in."""
        return self.replica.position

    @property
    def tables(self) -> Mapping[str, TableSchema]:
        """The tables as the host knows them."""
        return self.replica.tables

    def bind(self, sql: str) -> tuple[StandingQuery, str, str | None]:
        """A subscription's query, its text in normal form without the name, and its name where it has one."""
        return self._routing.bind(sql, self._host)

    def elsewhere(self, name: str) -> HostKind | None:
        """The host that has a name, if it is another one."""
        return self._routing.elsewhere(name, self._host)

    def schema(self, table: str) -> TableSchema:
        """The table that a bound query reads, or what its pairs of rows go by."""

        def known(name: str) -> TableSchema:
            if name not in self.replica.tables:
                raise SchemaError(f"the host {self._host.value!r} does not know the table {name!r} yet")
            return self.replica.tables[name]

        return answer_schema(table, known)

    def answer(self, number: int) -> Answer:
        """All that has been said of a query that is registered."""
        return self.replica.answer(number)

    def look(self, number: int) -> None:
        """There is nothing to refuse: what the host has said is there."""

    def select(self, table: str, region: Region) -> pa.RecordBatch:
        """Rows are asked for in the lane of the node."""
        raise NotSupported(f"questions are answered in the lane with ?host={HostKind.NODE.value}, not in this one")
