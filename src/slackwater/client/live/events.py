"""Events and instructions of `ClientState`: its inputs and outputs.

The input and output around the state make connections and carry messages. Of several nodes they choose another one
for each `Connect`. Times are microseconds of one clock that never goes back; it need not be right.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from slackwater.core.region import Region
from slackwater.dissemination.messages import UNICAST, FromClient, FromNode, Published, WireRow

# Events.


@dataclass(frozen=True, slots=True)
class Opened:
    """The connection that was asked for is there."""


@dataclass(frozen=True, slots=True)
class MessageReceived:
    """A message came."""

    message: FromNode


@dataclass(frozen=True, slots=True)
class Lost:
    """The connection is gone, or could not be made."""

    why: str


@dataclass(frozen=True, slots=True)
class ClockTick:
    """Time has passed; see `ClientState.next_tick`."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """The program subscribes; `ref` is a number of its choice, never used again."""

    ref: int
    sql: str
    delivery: str = UNICAST


@dataclass(frozen=True, slots=True)
class Unwanted:
    """The program does not want it any more."""

    ref: int


@dataclass(frozen=True, slots=True)
class Questioned:
    """The program asks for the rows of a region, as of `after` at least, and they are not all at hand."""

    ref: int
    table: str
    region: Region
    after: int = 0


@dataclass(frozen=True, slots=True)
class Withdrawn:
    """It does not wait for the answer any more."""

    ref: int


@dataclass(frozen=True, slots=True)
class ChannelHeard:
    """A message of a channel came, whole and in order."""

    name: str
    message: Published


@dataclass(frozen=True, slots=True)
class ChannelMissed:
    """Some messages of a channel did not come."""

    name: str


@dataclass(frozen=True, slots=True)
class ChannelLost:
    """A channel could not be joined, or is joined no longer."""

    name: str
    why: str


Event: TypeAlias = (
    Opened
    | MessageReceived
    | Lost
    | ClockTick
    | Wanted
    | Unwanted
    | Questioned
    | Withdrawn
    | ChannelHeard
    | ChannelMissed
    | ChannelLost
)


# Instructions.


@dataclass(frozen=True, slots=True)
class SendMessage:
    """Write a message to the connection."""

    message: FromClient


@dataclass(frozen=True, slots=True)
class SendEncoded:
    """Write a message to the connection that is encoded already."""

    data: bytes


@dataclass(frozen=True, slots=True)
class Connect:
    """Drop the connection if there still is one, and make another after this many microseconds."""

    after: int
    why: str = ""


@dataclass(frozen=True, slots=True)
class JoinChannel:
    """Join a channel after this many microseconds; a membership of the same name that there still is ends."""

    name: str
    address: str
    after: int


@dataclass(frozen=True, slots=True)
class LeaveChannel:
    """Leave a channel."""

    name: str


@dataclass(frozen=True, slots=True)
class Described:
    """A subscription was granted (or is now under another plan): its columns, or none where it is one number.

    `shared`: its facts come by a channel.
    """

    ref: int
    columns: tuple[str, ...]
    types: tuple[str, ...]
    key: tuple[str, ...]
    within: float
    fidelity: float
    epoch: int
    shared: bool = False


@dataclass(frozen=True, slots=True)
class AnswerChanged:
    """The shown answer of a subscription changed.

    Of one number it is `value`; of rows, by key, what entered or changed (`upserts`) and which keys left (`deletes`).
    A change is told once, and only if it is one; `as_of` is the position at which it is right.
    """

    ref: int
    as_of: int
    value: float | None = None
    upserts: Mapping[WireRow, WireRow] = field(default_factory=dict)
    deletes: tuple[WireRow, ...] = ()


@dataclass(frozen=True, slots=True)
class Certainty:
    """The certainty of a subscription changed; `why` is empty where it is certain."""

    ref: int
    certain: bool
    why: str


@dataclass(frozen=True, slots=True)
class SubscriptionEnded:
    """The subscription cannot be had, or no longer; nothing more comes of it."""

    ref: int
    why: str
    host: str | None = None
    """Where it can be had: in the lane of this host."""


@dataclass(frozen=True, slots=True)
class Answered:
    """A question is answered as of a position: by these rows, and those of the cache that lie in `home`.

    The cache is as of that position now; with the next event it may be past it.
    """

    ref: int
    as_of: int
    rows: tuple[WireRow, ...]
    home: Region
    shape: str


@dataclass(frozen=True, slots=True)
class Unanswerable:
    """A node does not answer a question in this way, and why."""

    ref: int
    why: str


Instruction: TypeAlias = (
    SendMessage
    | SendEncoded
    | Connect
    | JoinChannel
    | LeaveChannel
    | Described
    | AnswerChanged
    | Certainty
    | SubscriptionEnded
    | Answered
    | Unanswerable
)


@dataclass(frozen=True, slots=True)
class Shown:
    """State of a subscription for the program, at a moment.

    While `certain`, |value − truth at `as_of`| ≤ `bound`, and rows are those of `as_of`, which is no earlier than
    where the node stood one lease ago. When not certain, `why` says so in a sentence; value and rows are still those
    of `as_of`. `value` is a number, or None where it is rows, or over nothing, or has not come yet (`as_of` is None).

    `incarnation` names the history that `as_of` is a position of: a log that was restored from a copy goes on under
    another one. Within a history `as_of` never goes back.

    A sum that is kept in parts (`client.planned.partial_sum`) has no single position: `as_of` is None, and `positions`
    are the aggregators of its parts, each with the position, in its own log, as of which its part is shown.
    """

    value: float | None
    rows: Mapping[WireRow, WireRow] | None
    bound: float
    fidelity: float
    as_of: int | None
    certain: bool
    why: str
    query: int | None = None
    epoch: int | None = None
    positions: tuple[tuple[str, int], ...] | None = None
    incarnation: int = 0

    @property
    def come(self) -> bool:
        """Whether there is an answer."""
        return self.as_of is not None or self.positions is not None
