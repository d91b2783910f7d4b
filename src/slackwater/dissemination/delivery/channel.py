"""Shared-channel delivery: the facts of a step are encoded once and published once, for all members of a query.

Mathematics
    The messages with facts of a channel are numbered from 0. A message (n, p, F) says: a member with the state after
    the messages 0 … n − 1 has, with the facts F, the state as of position p. A heartbeat (n, p) says that the state
    after 0 … n − 1 is right as of p. `place` gives (n, p) with a state that is sent by unicast. So a member at n takes
    message n, drops those below n, and knows by any greater number that it lacks one. A number that is skipped on
    purpose (`renew`) is a gap like one that the network makes: every member asks for the state.

    A channel opens with the first member of a query and closes with the last. Names are never used again: a member of
    an earlier opening, or of an earlier process, cannot take a later message for its own.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from slackwater.core.query import StandingQuery
from slackwater.dissemination.delivery.base import (
    AnyRecipient,
    ChannelAction,
    ChannelPlace,
    CloseChannel,
    Delivery,
    DeliveryContext,
    OpenChannel,
    PublishMessage,
)
from slackwater.dissemination.encoding import Encoding
from slackwater.dissemination.messages import Channel, Fact, Published, Resumed, SharedFact

CHANNEL = "channel"


@dataclass(slots=True)
class _QueryChannel:
    """The channel of one query."""

    name: str
    members: set[int] = field(default_factory=set)
    epoch: int = 0
    sequence: int = 0
    pending: list[SharedFact] = field(default_factory=list)


class ChannelDelivery(Delivery[AnyRecipient]):
    """The channels of the queries that have members."""

    name = CHANNEL

    def __init__(self, place: ChannelPlace, heartbeat: int) -> None:
        self._place = place
        self._open: dict[int, _QueryChannel] = {}
        self._pending: dict[int, None] = {}
        self._actions: list[ChannelAction] = []
        # A lease lasts for four heartbeats of a session. It is renewed by a frame and by the channel having come to
        # the frame's position, so the channel must not add as much again.
        self._every = heartbeat // 2
        self._due: int | None = None

    @property
    def members(self) -> int:
        """Sessions times queries that channels reach."""
        return sum(len(one.members) for one in self._open.values())

    def carries(self, query: StandingQuery, recipient: AnyRecipient) -> bool:
        """Messages are MessagePack; and what is pushed to a client's cache is that client's own."""
        return query.pushed is None and recipient.encoding is Encoding.MESSAGEPACK

    def join(self, query: int, recipient: AnyRecipient) -> None:
        """Count a session in; its client joins the channel."""
        if query not in self._open:
            opened = self._open[query] = _QueryChannel(next(self._place.names))
            self._actions.append(OpenChannel(opened.name))
        self._open[query].members.add(recipient.connection)

    def leave(self, query: int, recipient: AnyRecipient) -> None:
        """Count it out, and close the channel behind the last."""
        members = self._open[query].members
        members.remove(recipient.connection)
        if not members:
            self._actions.append(CloseChannel(self._open.pop(query).name))
            self._pending.pop(query, None)

    def publish(self, query: int, fact: SharedFact) -> None:
        """Add a fact to the message of the step."""
        one = self._open.get(query)
        if one is not None:
            one.epoch = fact.epoch
            one.pending.append(fact)
            self._pending[query] = None

    def renew(self, query: int, state: Callable[[AnyRecipient], Iterable[Fact]]) -> None:
        """Skip a number: each member sees the gap and asks for the state."""
        one = self._open.get(query)
        if one is not None:
            one.pending.clear()
            one.sequence += 1
            self._pending[query] = None

    def place(self, query: int, epoch: int, position: int, suspended: bool) -> tuple[Fact, ...]:
        """How many messages a state that is as of now has taken in."""
        one = self._open[query]
        one.epoch = epoch
        place = Channel(query, epoch, self._place.address, one.name, one.sequence, position)
        return (place,) if suspended else (Resumed(query, epoch), place)

    def seal(self, position: int, now: int) -> Sequence[ChannelAction]:
        """Publish the facts of the step, one message a query; without facts, the heartbeat that shows a gap."""
        if self._due is None and self._open:
            self._due = now + self._every
        pending, self._pending = self._pending, {}
        for query in pending:
            self._publish_message(query, self._open[query], position)
        actions, self._actions = self._actions, []
        return actions

    @property
    def due(self) -> int | None:
        """When the next heartbeat of the channels is due."""
        return self._due

    def beat(self, position: int, now: int) -> Sequence[ChannelAction]:
        """Publish a heartbeat on every channel."""
        self._due = now + self._every if self._open else None
        self._pending.update(dict.fromkeys(self._open))
        return self.seal(position, now)

    def _publish_message(self, query: int, one: _QueryChannel, position: int) -> None:
        facts = tuple(one.pending)
        one.pending.clear()
        message = Published(query, one.epoch, one.sequence, position, facts)
        one.sequence += bool(facts)
        self._actions.append(PublishMessage(one.name, message))


def channel(context: DeliveryContext[AnyRecipient]) -> Delivery[AnyRecipient] | None:
    """Channels are off unless the server has a place for them."""
    return None if context.channels is None else ChannelDelivery(context.channels, context.heartbeat)
