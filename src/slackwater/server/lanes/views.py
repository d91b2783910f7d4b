"""Lane routing: assigns queries to hosts; each lane's view of the engine at that host's own log position.

The facts of a session are right as of one position. Queries on a node follow the log closely, those on Spark by
micro-batches; in one session the quick ones would have to wait for the slow ones. So a connection is for one lane;
a subscription to a query of another lane is refused with that lane's name.
"""

from collections.abc import Mapping

import pyarrow as pa

from slackwater.core.errors import NotSupported, SchemaError
from slackwater.core.hosts import HostKind
from slackwater.core.lineage import Lineage
from slackwater.core.region import Region
from slackwater.core.schema import TableSchema
from slackwater.core.types import Position
from slackwater.hosting.registrations import Registrations
from slackwater.hosting.replica import Replica
from slackwater.kinds.registry import answer_schema
from slackwater.processing.base import Answer
from slackwater.sessions.engine import NodeEngine
from slackwater.sessions.registrar import Registrar


class EngineView:
    """The engine of the queries that the node keeps itself, or plans, as their sessions see it."""

    def __init__(self, engine: NodeEngine, registrar: Registrar) -> None:
        self._engine = engine
        self.registrar = registrar

    @property
    def position(self) -> Position:
        """The end of the last step that was applied."""
        return self._engine.position

    @property
    def lineage(self) -> Lineage:
        """The incarnations of the node's log."""
        return self._engine.lineage

    @property
    def registry(self) -> Registrations:
        """The registrations that the host knows of."""
        return self._engine.registry

    def schema(self, table: str) -> TableSchema:
        """The table that a bound query reads."""
        return self._engine.schema(table)

    def answer(self, number: int) -> Answer:
        """All that has been said of a query that is registered."""
        return self._engine.answer(number)

    def recheck(self, number: int) -> None:
        """Refuse a query that takes too much still."""
        self._engine.recheck(number)

    def select(self, table: str, region: Region) -> pa.RecordBatch:
        """The rows of a table that lie in a region."""
        return self._engine.select(table, region)


class ReplicaView:
    """View of a remote host's queries: its replica takes the place of operators."""

    def __init__(self, replica: Replica, registrar: Registrar, host: HostKind = HostKind.SPARK) -> None:
        self.replica = replica
        self.registrar = registrar
        self._host = host

    @property
    def position(self) -> Position:
        """The end of the last step that was taken in."""
        return self.replica.position

    @property
    def lineage(self) -> Lineage:
        """The incarnations of the node's log, to which the replica's place belongs."""
        return self.registrar.lineage

    @property
    def tables(self) -> Mapping[str, TableSchema]:
        """The tables as the host knows them."""
        return self.replica.tables

    @property
    def registry(self) -> Registrations:
        """The registrations that the host knows of."""
        return self.replica.registry

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

    def recheck(self, number: int) -> None:
        """No re-check is needed: published answers are always available."""

    def select(self, table: str, region: Region) -> pa.RecordBatch:
        """Not available: pulls go to the lane of the node."""
        raise NotSupported(f"questions are answered in the lane with ?host={HostKind.NODE.value}, not in this one")
