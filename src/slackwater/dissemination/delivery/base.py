"""Delivery protocol: how the facts of a query reach its subscribers.

Design
    The sessions know *what* is to be sent: the facts of each step, and the state of a query on demand. A delivery knows
    *how* it gets to the sessions that joined the query. Each session receives a query in one way at a time. A delivery
    decides and does no I/O: what is to be done on a channel it returns as actions, in order.

Contract (kept by every delivery, tested in `tests/contracts/test_deliveries.py`)

1.  *Published once.* `publish` takes each fact of a query once, however many sessions have joined. `seal` ends the
    step: what was published until then is right as of its position.
2.  *Whole and in order, or a gap that the member detects.* A member applies all facts of a query in order. A fact that
    is lost, or was not published because it was too large, leaves a gap in a sequence. A member sees the gap with the
    next message, at the latest with the next heartbeat. It applies nothing behind a gap.
3.  *Catch-up by state, never by backlog.* A member behind a gap asks for the state. `place` says which messages that
    state has taken in, so the member continues from there. A state that is older than what the member shows is not
    applied: nothing goes back.
4.  *`renew` replaces.* When the facts of a step do not tell the state, every member gets the whole state, either at
    once or because `renew` opens a gap.
5.  *Leases are those of the session.* Only a session gives a client's clock reading back. A value as of q is certain
    until `heard + lease` of the latest frame of the session as of p ≤ q: at the moment of that reading the server
    stood at p at most. So |value − truth at `as_of`| ≤ bound while certain, and `as_of` is no earlier than the
    position of the server one lease ago, however the value arrived. A server in doubt gives back no reading, and all
    deliveries lose certainty with it.
6.  *Epochs are never mixed.* A member applies facts of the epoch that its state has. A new epoch begins with a state.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar, Generic, Protocol, TypeAlias, TypeVar

from slackwater.core.query import StandingQuery
from slackwater.dissemination.encoding import Encoding
from slackwater.dissemination.messages import Fact, Published, SharedFact


class Recipient(Protocol):
    """A session, as a delivery sees it."""

    connection: int
    encoding: Encoding


AnyRecipient = TypeVar("AnyRecipient", bound=Recipient)


@dataclass(frozen=True, slots=True)
class OpenChannel:
    """Open a channel under a name that was never used before."""

    name: str


@dataclass(frozen=True, slots=True)
class PublishMessage:
    """Publish a message once to all members of a channel; a message that cannot be carried is left out."""

    name: str
    message: Published


@dataclass(frozen=True, slots=True)
class CloseChannel:
    """Close the channel of a name."""

    name: str


ChannelAction: TypeAlias = OpenChannel | PublishMessage | CloseChannel


@dataclass(frozen=True, slots=True)
class ChannelPlace:
    """Where a server publishes: the address that members join at, and names for channels, each given out once."""

    address: str
    names: Iterator[str]


@dataclass(frozen=True, slots=True)
class DeliveryContext(Generic[AnyRecipient]):
    """Context of deliveries: a function that holds a fact for a session, and the place of channels, if any."""

    hold: Callable[[AnyRecipient, Fact], None]
    heartbeat: int
    channels: ChannelPlace | None = None


class Delivery(ABC, Generic[AnyRecipient]):
    """One way to reach subscribers; the module states its contract."""

    name: ClassVar[str]
    """Name of the delivery in `Subscribe.delivery`."""

    def carries(self, query: StandingQuery, recipient: AnyRecipient) -> bool:
        """True if this delivery can carry a query to a session; if not, unicast does."""
        return True

    @abstractmethod
    def join(self, query: int, recipient: AnyRecipient) -> None:
        """Deliver a query to a session from now on; the session gets the state separately."""

    @abstractmethod
    def leave(self, query: int, recipient: AnyRecipient) -> None:
        """Deliver it to the session no longer."""

    @abstractmethod
    def publish(self, query: int, fact: SharedFact) -> None:
        """Deliver a fact to all members of a query."""

    @abstractmethod
    def renew(self, query: int, state: Callable[[AnyRecipient], Iterable[Fact]]) -> None:
        """Have all members take over the whole state, which `state` gives for one of them."""

    @property
    def members(self) -> int:
        """Subscribers that a shared message reaches; 0 where nothing is shared."""
        return 0

    def place(self, query: int, epoch: int, position: int, suspended: bool) -> tuple[Fact, ...]:
        """Facts that go with a state as of a position, so that the member knows what follows it.

        A member of a channel may have heard of a suspension there, or here; so they also say that there is none.
        """
        return ()

    def seal(self, position: int, now: int) -> Sequence[ChannelAction]:
        """End a step: what is to be done on channels."""
        return ()

    @property
    def due(self) -> int | None:
        """When `beat` is due; None where there is nothing to beat for."""
        return None

    def beat(self, position: int, now: int) -> Sequence[ChannelAction]:
        """Publish a heartbeat: everything published is right as of a position."""
        return ()
