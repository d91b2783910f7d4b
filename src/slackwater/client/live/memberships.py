"""The channels of a client without their sockets: what is joined, what members lack, and until when they are certain.

Design
    A subscription that a channel delivers is not *live*: the session does not keep it right, its member does
    (`dissemination.delivery.member`), and it has a position and a lease of its own. The lease comes from the frames of
    the session. A frame as of p gives back a reading c of this client's clock, so at c the server stood at p at most:
    what is right as of p or later can be relied on until c + lease, however it arrived.

    A member that lacks messages asks for the state by the session, and again until it has come. A channel that cannot
    be joined, or is silent for a lease, is joined again, and after a few attempts the facts are asked for by unicast.

    A message costs no more with many channels: it concerns the members of its own, and what is due next stands first.
"""

from collections import OrderedDict, deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import Protocol

from slackwater.client.live.events import (
    ChannelHeard,
    ChannelLost,
    ChannelMissed,
    Instruction,
    JoinChannel,
    LeaveChannel,
    SendMessage,
)
from slackwater.client.live.replica import Held
from slackwater.dissemination.delivery.channel import CHANNEL
from slackwater.dissemination.delivery.member import ChannelMember
from slackwater.dissemination.messages import (
    UNICAST,
    CatchUp,
    Channel,
    Delete,
    Frame,
    Published,
    Subscribed,
    Suspended,
    Upsert,
    Value,
)

_ATTEMPTS = 3
"""Times that a channel is joined without a message from it, before its facts are asked for by unicast."""


class ChannelHolder(Protocol):
    """What of a client its channels can change."""

    held: dict[int, Held]
    touched: set[int]


@dataclass(slots=True)
class _Joined:
    """A channel and the subscriptions that it delivers."""

    address: str
    heard: int
    refs: set[int] = field(default_factory=set)
    attempts: int = 1

    @property
    def given_up(self) -> bool:
        """Whether the facts are asked for by unicast: what the channel still brings must not be ahead of them."""
        return self.attempts > _ATTEMPTS


class Memberships:
    """All channels of a session. Times are those of the client's clock."""

    def __init__(self, retry: int) -> None:
        self.lease = 0
        self._retry = retry
        self._joined: OrderedDict[str, _Joined] = OrderedDict()
        """By name, the channel that has been silent the longest first."""
        self._asked: OrderedDict[int, int] = OrderedDict()
        """Members that are behind, and when the state was asked for last, the earliest first."""
        self._vouched: deque[tuple[int, int]] = deque()
        """Positions of frames, each with the time until which what is right as of it can be relied on."""

    # What the session says.

    def admit(self, held: Held, place: Channel, now: int, out: list[Instruction]) -> None:
        """A subscription is delivered by a channel."""
        if held.member is not None and held.member.name == place.name:
            return
        self.dismiss(held, out)
        held.deliver(ChannelMember(place.name, -1 if held.as_of is None else held.as_of))
        joined = self._joined.get(place.name)
        if joined is None:
            joined = self._joined[place.name] = _Joined(place.address, now)
            out.append(JoinChannel(place.name, place.address, 0))
        joined.refs.add(held.ref)

    def are_ahead(self, frame: Frame, holder: ChannelHolder) -> bool:
        """Whether a frame takes a subscription from its channel, as of a position before what the channel brought.

        It is as good as lost: the server stands there already, and sends it again as of then.
        """
        if not self._joined:
            return False
        placed = {fact.query for fact in frame.facts if isinstance(fact, Channel)}
        taken = (fact for fact in frame.facts if isinstance(fact, Subscribed) and fact.query not in placed)
        found = (holder.held.get(fact.ref) for fact in taken)
        return any(held is not None and held.member is not None and (held.as_of or 0) > frame.as_of for held in found)

    def dismiss(self, held: Held, out: list[Instruction]) -> None:
        """It is delivered by a channel no longer."""
        self._asked.pop(held.ref, None)
        if held.member is None:
            return
        name = held.member.name
        held.deliver(None)
        joined = self._joined[name]
        joined.refs.discard(held.ref)
        if not joined.refs:
            del self._joined[name]
            out.append(LeaveChannel(name))

    def close(self, out: list[Instruction]) -> None:
        """The session is over, and with it all that belongs to it."""
        out += (LeaveChannel(name) for name in self._joined)
        self._joined.clear()
        self._asked.clear()
        self._vouched.clear()

    def vouch(self, as_of: int, until: int, holder: ChannelHolder) -> None:
        """A frame says that what is right as of a position can be relied on for so long."""
        if not self._joined or (self._vouched and until <= self._vouched[-1][1]):
            return
        self._vouched.append((as_of, until))
        for joined in self._joined.values():
            for ref in joined.refs:
                self._extend(holder.held[ref], holder)
        slowest = min(
            (holder.held[ref].as_of or 0 for joined in self._joined.values() for ref in joined.refs), default=0
        )
        # The clock reads at least `until - lease`: what ended before that can extend nothing any more.
        while len(self._vouched) > 1 and (self._vouched[1][0] <= slowest or self._vouched[0][1] <= until - self.lease):
            self._vouched.popleft()

    def settle(self, held: Held, holder: ChannelHolder) -> None:
        """What a member has applied is shown as of where it stands."""
        assert held.member is not None
        if held.suspended is None and held.member.epoch == held.epoch:
            held.as_of = max(held.as_of or 0, held.member.position)
            self._extend(held, holder)
        if not held.member.behind:
            self._asked.pop(held.ref, None)
        holder.touched.add(held.ref)

    # What comes by channels.

    def handle(
        self, event: ChannelHeard | ChannelMissed | ChannelLost, holder: ChannelHolder, now: int, out: list[Instruction]
    ) -> None:
        """Take in what happened on a channel, if it is one of this session."""
        joined = self._joined.get(event.name)
        if joined is None or joined.given_up:
            return
        match event:
            case ChannelHeard(_, message):
                joined.heard, joined.attempts = now, 0
                self._joined.move_to_end(event.name)
                for ref in sorted(joined.refs):
                    self._hear(holder.held[ref], message, holder, out)
            case ChannelMissed():
                self._miss(joined, holder)
            case ChannelLost():
                self._rejoin(event.name, joined, holder, now, out)
        self._ask(joined, holder, now, out)

    def repeat(self, holder: ChannelHolder, now: int, out: list[Instruction]) -> None:
        """Look whether anything is to be said again."""
        for name, joined in list(self._joined.items()):
            if now >= joined.heard + self.lease and not joined.given_up:
                self._rejoin(name, joined, holder, now, out)
        for joined in self._joined.values():
            self._ask(joined, holder, now, out)

    def due(self) -> Iterator[int]:
        """When something is to be looked at again."""
        heard = (joined.heard for joined in self._joined.values() if not joined.given_up)
        yield from (first + self.lease for first in islice(heard, 1))
        yield from (first + self._retry for first in islice(self._asked.values(), 1))

    def _hear(self, held: Held, message: Published, holder: ChannelHolder, out: list[Instruction]) -> None:
        assert held.member is not None
        self.apply(held, held.member.hear(message), holder, out)

    def apply(self, held: Held, messages: Iterable[Published], holder: ChannelHolder, out: list[Instruction]) -> None:
        """Apply messages whose turn it is."""
        assert held.member is not None
        for message in messages:
            suspended = [fact.why for fact in message.facts if isinstance(fact, Suspended)]
            if suspended or held.suspended is not None:
                # It stays as it was when it could be relied on; what comes meanwhile is part of the state later.
                held.suspended = suspended[-1] if suspended else held.suspended
                held.member.behind |= bool(message.facts) and not suspended
                holder.touched.add(held.ref)
                continue
            for fact in message.facts:
                match fact:
                    case Value() if held.rows is None:
                        held.apply_value(fact)
                    case Upsert() | Delete() if held.rows is not None:
                        held.apply_row(fact)
                    case _:
                        pass
            self.settle(held, holder)
            changed = held.changed(message.position)
            if changed is not None:
                out.append(changed)

    def _extend(self, held: Held, holder: ChannelHolder) -> None:
        for as_of, until in reversed(self._vouched):
            if held.as_of is not None and as_of <= held.as_of:
                if until > held.until:
                    held.until = until
                    holder.touched.add(held.ref)
                return

    def _miss(self, joined: _Joined, holder: ChannelHolder) -> None:
        for ref in joined.refs:
            member = holder.held[ref].member
            assert member is not None
            member.miss()

    def _rejoin(self, name: str, joined: _Joined, holder: ChannelHolder, now: int, out: list[Instruction]) -> None:
        self._miss(joined, holder)
        joined.heard = now
        joined.attempts += 1
        self._joined.move_to_end(name)
        out.append(LeaveChannel(name) if joined.given_up else JoinChannel(name, joined.address, self._retry // 4))

    def _ask(self, joined: _Joined, holder: ChannelHolder, now: int, out: list[Instruction]) -> None:
        """Ask for the state of each member of a channel that is behind."""
        for ref in sorted(joined.refs):
            member = holder.held[ref].member
            assert member is not None
            lacks = member.behind or joined.given_up
            if lacks and now >= self._asked.get(ref, now - self._retry) + self._retry:
                self._asked[ref] = now
                self._asked.move_to_end(ref)
                out.append(SendMessage(CatchUp(ref, UNICAST if joined.given_up else CHANNEL)))
