"""Events and instructions of a serving node, and its engine interface: the seam of `ServerState`.

Design
    The input and output around the state (sockets, the log, the host of the operators) turn everything that happens
    into one of these events and carry out the instructions that come back, in order. They promise three things:

    1.  The records of the log are reported in order: first `QueryRegistered` and `QueryUnregistered` for the
        registrations among the records of a step, then one `Applied` for the step, also without notifications.
        A step is what the host applied at once; nothing else may happen in between, save that a query which begins in
        it may be suspended from its beginning, and a cache when its table gets another column.
    2.  Connections have numbers that are never used twice while the node runs. After `Disconnected`, or after an
        instruction to close, nothing more is reported of a connection.
    3.  Between `Blocked` and `Writable` the connection takes no more. (What is sent nevertheless, a farewell, may be
        dropped.)

    `ServerState` is made when the host stands at its snapshot or at the end of the log; it receives a
    `QueriesPresent` for the queries that are registered already. Nothing is lost if an `Append` fails: it is repeated.
"""

from dataclasses import dataclass
from typing import Protocol, TypeAlias

import pyarrow as pa

from slackwater.core.lineage import Lineage
from slackwater.core.query import StandingQuery
from slackwater.core.region import Region
from slackwater.core.schema import TableSchema
from slackwater.core.types import Position
from slackwater.dissemination.delivery.base import ChannelAction
from slackwater.dissemination.encoding import Encoding
from slackwater.dissemination.messages import FromClient, FromNode, IngestWindow
from slackwater.hosting.registrations import Registrations
from slackwater.hosting.step import Registration
from slackwater.log.records import Registered, Unregistered
from slackwater.processing.base import Answer, Notifications
from slackwater.sessions.registrar import Registrar


@dataclass(frozen=True, slots=True)
class Principal:
    """Authenticated client: a name for limits, whether it may register new queries, and how many rows it may stream."""

    name: str
    may_register: bool = True
    ingest: IngestWindow | None = None


# What happens.


@dataclass(frozen=True, slots=True)
class Connected:
    """An authorised client has connected; nothing was received yet."""

    connection: int
    principal: Principal
    encoding: Encoding = Encoding.MESSAGEPACK


@dataclass(frozen=True, slots=True)
class Received:
    """A message came. What could not be decoded never gets here: answer it with `Goodbye` and close."""

    connection: int
    message: FromClient


@dataclass(frozen=True, slots=True)
class Blocked:
    """The connection takes no more for now."""

    connection: int


@dataclass(frozen=True, slots=True)
class Writable:
    """The connection takes messages again."""

    connection: int


@dataclass(frozen=True, slots=True)
class Disconnected:
    """The connection is gone."""

    connection: int


@dataclass(frozen=True, slots=True, eq=False)
class Applied:
    """The host has applied a step that ends at the position of its notifications."""

    notifications: Notifications


@dataclass(frozen=True, slots=True)
class QueriesPresent:
    """Queries that are registered already where the state begins; the registry has their values, for when needed."""

    registrations: tuple[Registration, ...]


@dataclass(frozen=True, slots=True)
class QueryRegistered:
    """A query is registered in the log under this number and plan epoch; `number` is never None here.

    A number that is there already is replaced, if the epoch is higher.
    """

    registration: Registration
    query: StandingQuery

    @property
    def number(self) -> int:
        """The number of the query."""
        return self.registration.number

    @property
    def epoch(self) -> int:
        """The epoch of its plan."""
        return self.registration.epoch

    @property
    def text(self) -> str:
        """The text that it is registered under."""
        return self.registration.text


@dataclass(frozen=True, slots=True)
class RightsChanged:
    """The rights of a principal are others from here on; queries that it owns come under another epoch in the log."""

    principal: str


@dataclass(frozen=True, slots=True)
class QueryUnregistered:
    """A query is unregistered in the log."""

    number: int


@dataclass(frozen=True, slots=True)
class Doubted:
    """The error of all answers is unknown at the moment, with the reason; None: it is known again."""

    why: str | None


@dataclass(frozen=True, slots=True)
class QueriesSuspended:
    """The guarantee of these queries does not hold for now, with the reason; repeated for another reason."""

    numbers: tuple[int, ...]
    why: str
    outgrown: bool = False
    """True if they exceed a limit: the state then calls `Engine.recheck` periodically, and resumes them itself."""


@dataclass(frozen=True, slots=True)
class QueriesResumed:
    """The guarantee holds again, as of the engine's position."""

    numbers: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class IncarnationBegun:
    """Another writer has opened the log: `Engine.lineage` lists one more incarnation."""


@dataclass(frozen=True, slots=True)
class Tick:
    """Time has passed. The host sends one at about `ServerState.next_tick`, at the latest a second after."""


Event: TypeAlias = (
    Connected
    | Received
    | Blocked
    | Writable
    | Disconnected
    | Applied
    | QueriesPresent
    | QueryRegistered
    | RightsChanged
    | QueryUnregistered
    | QueriesSuspended
    | QueriesResumed
    | Doubted
    | IncarnationBegun
    | Tick
)


# What is to be done about it.


@dataclass(frozen=True, slots=True)
class Send:
    """Write a message to a connection, in its encoding."""

    connection: int
    message: FromNode


@dataclass(frozen=True, slots=True)
class Close:
    """Close a connection once what was sent is written; `Disconnected` need not be reported."""

    connection: int
    why: str


@dataclass(frozen=True, slots=True)
class Append:
    """Append records to the log."""

    records: tuple[Registered | Unregistered, ...]


Instruction: TypeAlias = Send | Close | Append | ChannelAction


class Engine(Protocol):
    """Interface of the session state to the host of operators and the catalog. All answers are as of `position`."""

    @property
    def position(self) -> Position:
        """The end of the last step that was applied."""
        ...

    @property
    def lineage(self) -> Lineage:
        """The incarnations of the log that is served from; it lists every place of the sessions."""
        ...

    @property
    def registry(self) -> Registrations:
        """The registrations that the host knows of, as of `position`."""
        ...

    @property
    def registrar(self) -> Registrar:
        """The rules by which statements are bound and registered, and the limits."""
        ...

    def schema(self, table: str) -> TableSchema:
        """The table that a bound query reads."""
        ...

    def answer(self, number: int) -> Answer:
        """The answer of a registered query, as last published."""
        ...

    def recheck(self, number: int) -> None:
        """Resume a query that grew too large; `AnswerTooLarge` if it still is."""
        ...

    def select(self, table: str, region: Region) -> pa.RecordBatch:
        """The rows of a table in a region, exactly; a `SlackwaterError` with the reason where they are not known."""
        ...
