"""Transport protocol: ordered, bounded delivery of messages from one end to the other, with back-pressure.

Design
    A transport carries messages and knows nothing of what they say: `bytes` (MessagePack) or `str` (JSON). A
    *connection* is one end of a pair. The node that sends may have thousands of them and must wait for none, so
    sending is an ordinary call that answers at once; what cannot be carried yet is held in a buffer with two marks.
    Above the first (`TransportLimits.hold_back`) `send` answers False: the caller does well to hold back and to send
    the state, not the backlog, when `drained` returns. Above the second (`TransportLimits.unsent`) the connection ends.

Contract (kept by every transport, tested in `tests/contracts/test_transports.py`)

1.  *Whole and in order, or ended.* What is received is what was sent, message by message, in the order of sending,
    none left out, none twice, none changed, text as text and bytes as bytes. Where that cannot be kept the connection
    ends.
2.  *Sending never waits.* `send` returns at once, whatever the peer does. It answers whether the peer keeps up: False
    while more than `hold_back` bytes are unsent, and False when the connection has ended, where it does nothing else.
3.  *Held back, not forgotten.* After a False, `drained` returns when less than half of `hold_back` is unsent, or when
    the connection has ended.
4.  *Overflow ends the connection.* A message that would make more than `unsent` bytes wait is not taken, the buffer
    is dropped, and the connection ends as `OVERFLOW`. The peer sees it `LOST`. Nothing is left out in silence.
5.  *Size.* `send` refuses a message above `message` bytes with `MessageTooLarge` and the connection lives on. One
    that arrives above the limit of the receiver ends the connection as `TOO_LARGE`, before it is held in memory whole.
6.  *A slow reader holds up its sender, not the memory.* What arrives and is not taken is bounded by `unread` messages
    and what the system's own buffers hold; beyond that it waits at the sender.
7.  *Garbage ends the connection* as `GARBAGE`, and only that connection.
8.  *The end is noticed,* on both sides, whichever caused it: `receive` gives what had arrived, then raises `Closed`,
    whose `ended` says how, on which side and why; `ended` says so too. A peer that closes passes its reason on, cut
    to `LONGEST_REASON` bytes. A peer that dies is `LOST`.
9.  *Closing delivers first.* What was sent before `close` arrives if the peer reads it within `grace` seconds. Closing
    twice is closing once, and two tasks may do so at the same time. Closing a connection that has ended does nothing.
10. *Nothing outlives close.* When `close` returns, neither task nor socket of this end is left. A listener that
    closes closes its connections.

One task at a time may receive on a connection. All calls belong to one event loop.

Channels, where a transport has them, carry one message to many (tested in `tests/contracts/test_channels.py`)

1.  *One publish.* `publish` hands a message to the transport once, however many have joined, and returns at once.
2.  *Whole and in order, or reported.* A member receives the messages of its channel in order, each whole and once. Each
    carries the channel's sequence. Where some did not reach a member it receives `Missed` in their place, also when
    nothing follows them for a while: never silence. It is for the member to ask for the state then.
3.  *Joining* returns within a bounded time, or raises `Unreachable`, also without a publisher. A member receives
    everything that is published after that, and nothing from before.
4.  *A stalled reader loses its membership,* as `OVERFLOW`, when more than `unsent` bytes wait for it. Neither the
    publisher nor other members notice.
5.  *Size.* `publish` refuses what is above `message` bytes, or more than the transport carries in one publish.
6.  *The end is noticed.* A publisher that closes ends the memberships with its reason; one that dies, or that cannot
    be heard of, is `LOST`. `receive` gives what had arrived, then raises `Closed`.

One channel has one publisher at a time.
"""

from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from enum import Enum
from typing import Protocol, TypeAlias

from slackwater.core.errors import SlackwaterError

Carried: TypeAlias = bytes | str
"""A message as it is carried: MessagePack as bytes, JSON as text."""

LONGEST_REASON = 120
"""Bytes of a reason that reach the peer: what the close frame of a WebSocket holds, less a little."""


@dataclass(frozen=True, slots=True)
class TransportLimits:
    """What one end of a connection takes and holds; sizes are bytes."""

    message: int = 16 << 20
    hold_back: int = 256 << 10
    unsent: int = 64 << 20
    unread: int = 16
    grace: float = 5.0

    def __post_init__(self) -> None:
        if min(self.message, self.hold_back, self.unread) < 1 or self.unsent < self.hold_back or self.grace < 0:
            raise ValueError(f"limits are positive, and unsent is at least hold_back: {self}")


class How(Enum):
    """How a connection ended."""

    CLOSED = "closed"
    LOST = "lost"
    OVERFLOW = "overflow"
    TOO_LARGE = "too large"
    GARBAGE = "garbage"


@dataclass(frozen=True, slots=True)
class Ended:
    """The end of a connection: how, whether it was this side that ended it, and why."""

    how: How
    here: bool
    why: str

    def __str__(self) -> str:
        return f"{self.how.value} by {'this side' if self.here else 'the other side'}: {self.why or 'no reason given'}"


class TransportError(SlackwaterError):
    """A message or a connection that cannot be carried."""


class Closed(TransportError):
    """The connection has ended; `ended` says how."""

    def __init__(self, ended: Ended) -> None:
        super().__init__(f"the connection was {ended}")
        self.ended = ended


class MessageTooLarge(TransportError):
    """A message above the limit was to be sent."""


class Unreachable(TransportError):
    """No process answers at an address."""


class Denied(TransportError):
    """The peer refuses the connection; `status` and `body` are as in HTTP."""

    def __init__(self, message: str, *, status: int, body: bytes) -> None:
        super().__init__(message)
        self.status = status
        self.body = body


class Connection(Protocol):
    """One end of a pair; the module states its contract."""

    @property
    def peer(self) -> str:
        """Name of the peer, for people to read."""
        ...

    @property
    def ended(self) -> Ended | None:
        """How it ended, or None while it lives."""
        ...

    @property
    def unsent(self) -> int:
        """Bytes that wait here to be carried."""
        ...

    def send(self, message: Carried) -> bool:
        """Take a message at once; False if the peer does not keep up."""
        ...

    async def drained(self) -> None:
        """Return when there is room again, or when the connection has ended."""
        ...

    async def receive(self) -> Carried:
        """The next message; raises `Closed` after the last."""
        ...

    async def close(self, why: str = "") -> None:
        """End it, after what was sent is delivered."""
        ...


Handler: TypeAlias = Callable[[Connection], Awaitable[None]]
"""Callback of a listener for a new connection; when it returns, the connection is closed."""


class Listener(Protocol):
    """A place where connections arrive."""

    @property
    def address(self) -> str:
        """Address that a peer dials."""
        ...


class Transport(Protocol):
    """A way of carrying messages."""

    def listen(self, handler: Handler, limits: TransportLimits) -> AbstractAsyncContextManager[Listener]:
        """Take connections for as long as the context lasts."""
        ...

    async def dial(self, address: str, limits: TransportLimits) -> Connection:
        """Connect to a listener; raises `Unreachable` or `Denied`."""
        ...


@dataclass(frozen=True, slots=True)
class Heard:
    """A message of a channel with its sequence number, counted from 0."""

    sequence: int
    message: Carried


@dataclass(frozen=True, slots=True)
class Missed:
    """So many messages of a channel did not reach this member."""

    count: int


class Publisher(Protocol):
    """The sending end of a channel."""

    @property
    def published(self) -> int:
        """Messages published, each by one publish of the transport."""
        ...

    def publish(self, message: Carried) -> int:
        """Send a message to all who have joined; returns its sequence."""
        ...


class Membership(Protocol):
    """A receiving end of a channel."""

    @property
    def ended(self) -> Ended | None:
        """How it ended, or None while it lasts."""
        ...

    async def receive(self) -> Heard | Missed:
        """The next message, or `Missed` for a gap; raises `Closed` after the last."""
        ...

    async def close(self) -> None:
        """Leave the channel."""
        ...


class Channels(Protocol):
    """A way of carrying one message to many."""

    def open(self, name: str, limits: TransportLimits) -> AbstractAsyncContextManager[Publisher]:
        """Publish under a name for as long as the context lasts."""
        ...

    async def join(self, name: str, limits: TransportLimits) -> Membership:
        """Receive what is published under a name; raises `Unreachable`."""
        ...


def size(message: Carried) -> int:
    """Bytes that a message takes on the way.

    >>> size(b"abc"), size("übc")
    (3, 4)
    """
    if isinstance(message, bytes) or message.isascii():
        return len(message)
    return len(message.encode())


def too_large(message: Carried, limits: TransportLimits) -> MessageTooLarge:
    """The refusal of a message to be sent."""
    return MessageTooLarge(
        f"a message of {size(message)} bytes is above the limit of {limits.message}: "
        "send fewer rows at a time, or raise the limit on both sides"
    )


def shortened(why: str) -> str:
    """A reason, cut so that it fits and stays text.

    >>> len(shortened("ü" * 100).encode())
    120
    """
    return why.encode()[:LONGEST_REASON].decode(errors="ignore")
