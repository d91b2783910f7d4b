"""What happens to a serving node, what it answers, and what it asks of its engine: the seam of `ServerState`.

Design
    The input and output around the state (sockets, the log, the host of the operators) turn everything that happens
    into one of these events and carry out the instructions that come back, in order. They promise three things:

    1.  The records of the log are reported in order: first `QueryRegistered` and `QueryUnregistered` for the
        registrations among the records of a step, then one `Applied` for the step, also when it has nothing to say.
        A step is what the host applied at once; nothing else may happen in between, save that a query which begins in
        it may be suspended from its beginning, and a cache when its table gets another column.
    2.  Connections have numbers that are never used twice while the node runs. After `Disconnected`, or after an
        instruction to close, nothing more is reported of a connection.
    3.  Between `Blocked` and `Writable` the connection takes no more. (What is sent nevertheless, a farewell, may be
        dropped.)

    `ServerState` is made when the host stands at its snapshot or at the end of the log; it is told of the queries that
    are kept already by a `QueryRegistered` for each. Nothing is lost if an `Append` fails: it is asked for again.
"""

from dataclasses import dataclass
from typing import Protocol, TypeAlias

import pyarrow as pa

from slackwater.core.query import StandingQuery
from slackwater.core.region import Region
from slackwater.core.schema import TableSchema
from slackwater.core.types import Position
from slackwater.dissemination.delivery.base import ChannelAction
from slackwater.dissemination.encoding import Encoding
from slackwater.dissemination.messages import FromClient, FromNode
from slackwater.hosting.registrations import Registrations
from slackwater.log.records import Registered, Unregistered
from slackwater.processing.base import Answer, Notifications
from slackwater.sessions.registrar import Registrar


@dataclass(frozen=True, slots=True)
class Principal:
    """Who is at the other end: a name to count by, and whether everything may be registered or only used."""

    name: str
    may_register: bool = True


# What happens.


@dataclass(frozen=True, slots=True)
class Connected:
    """Somebody who may read has connected; nothing was received yet."""

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
    """It does again."""

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
class QueryRegistered:
    """The log says that a query is kept under this number and plan epoch; `number` is never None here.

    A number that is there already is replaced, if the epoch is higher.
    """

    number: int
    epoch: int
    text: str
    owner: str
    name: str | None
    query: StandingQuery


@dataclass(frozen=True, slots=True)
class QueryUnregistered:
    """The log says that a query is kept no longer."""

    number: int


@dataclass(frozen=True, slots=True)
class Doubted:
    """Nobody can know at the moment how right the answers are, and why; None: everything is known again."""

    why: str | None


@dataclass(frozen=True, slots=True)
class QueriesSuspended:
    """The guarantee of these queries does not hold for now, and why; said again where the reason is another."""

    numbers: tuple[int, ...]
    why: str
    outgrown: bool = False
    """Whether they take too much: then the engine is asked now and then to `look` at them, and nobody resumes them."""


@dataclass(frozen=True, slots=True)
class QueriesResumed:
    """It holds again, as of where the engine stands."""

    numbers: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Tick:
    """Time has passed. To be sent about when `ServerState.next_tick` says, at the latest a second after."""


Event: TypeAlias = (
    Connected
    | Received
    | Blocked
    | Writable
    | Disconnected
    | Applied
    | QueryRegistered
    | QueryUnregistered
    | QueriesSuspended
    | QueriesResumed
    | Doubted
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
    """What the state asks of the host of the operators and of the catalog. All answers are as of `position`."""

    @property
    def position(self) -> Position:
        """The end of the last step that was applied."""
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
        """All that has been said of a query that is registered."""
        ...

    def look(self, number: int) -> None:
        """Refuse, as `AnswerTooLarge`, a query that takes too much still; else it can be answered again."""
        ...

    def select(self, table: str, region: Region) -> pa.RecordBatch:
        """The rows of a table that lie in a region, exactly; a `SlackwaterError` says why that cannot be told."""
        ...
