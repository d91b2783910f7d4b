"""Client state machine, without I/O: events in, instructions out.

Design
    All subscriptions share one session with one node. A frame of it is applied whole or not at all; then everything
    that is *live* is right as of the frame's position. What is not live, because the node has not answered yet in this
    session or has suspended it, stays as of the position at which it was right last, and the lease of that time runs
    out. So a client that goes from one node to another shows what it has, certain until the old lease ends, and
    nothing is ever shown as of an earlier position: a node is told how far the client has seen, and a frame from
    before that is not applied.

    Positions are those of one history. `incarnation` names it: with a position it is a place (`core.lineage`), and of
    every state that is held. A node whose log was restored from a copy may not have had all of it; how far it had,
    `Welcome.kept` tells. What is held as of a later position is dropped, which is the one case where the program sees
    an earlier position than before. The rest is relied on under the node's incarnation, as the histories agree on it.
"""

from collections.abc import Callable, Collection
from dataclasses import dataclass
from enum import Enum, auto
from itertools import islice

from slackwater.client.ingest.state import IngestState
from slackwater.client.live.apply_frame import apply
from slackwater.client.live.events import (
    Certainty,
    ChannelHeard,
    ChannelLost,
    ChannelMissed,
    ClockTick,
    Connect,
    Event,
    Instruction,
    Lost,
    MessageReceived,
    Opened,
    Questioned,
    SendEncoded,
    SendMessage,
    Shown,
    SubscriptionEnded,
    Unwanted,
    Wanted,
    Withdrawn,
)
from slackwater.client.live.memberships import Memberships
from slackwater.client.live.processes import NodeProcesses
from slackwater.client.live.replica import Held
from slackwater.core.backoff import Backoff
from slackwater.core.errors import ProtocolError
from slackwater.core.lineage import BEGINNING, Place
from slackwater.dissemination.encoding import Encoding
from slackwater.dissemination.messages import (
    VERSION,
    Ack,
    Frame,
    Goodbye,
    Ingested,
    IngestRefused,
    Open,
    Subscribe,
    Unsubscribe,
    Welcome,
)

_SECOND = 1_000_000
ANSWERED_A_RETRY = 1_000
"""Subscriptions that a node can be expected to answer while a client waits before it repeats one."""


@dataclass(frozen=True, slots=True)
class Patience:
    """How long a client waits, in microseconds."""

    retry: int = 1 * _SECOND
    """Microseconds to wait for an answer, before a message is repeated."""
    opening: int = 5 * _SECOND
    """For a session."""
    first_backoff: int = _SECOND // 10
    """Before it connects again, doubled with every failure, and spread over half of it."""
    longest_backoff: int = 10 * _SECOND

    @property
    def backoff(self) -> Backoff:
        """The waits before new connections."""
        return Backoff(self.first_backoff, most=self.longest_backoff)


class Phase(Enum):
    """Where the connection stands."""

    IDLE = auto()
    CONNECTING = auto()
    OPENING = auto()
    OPEN = auto()
    REFUSED = auto()


class ClientState:
    """All subscriptions of a client, over one connection at a time.

    `jitter` gives numbers from 0 to below 1, by which waiting before a new connection is spread. `after` is a place
    that was seen in an earlier life: where the node's log holds it, nothing is shown as of an earlier position.
    """

    held_class: Callable[[int, str], Held] = Held

    def __init__(
        self,
        jitter: Callable[[], float],
        encoding: Encoding = Encoding.MESSAGEPACK,
        patience: Patience = Patience(),  # noqa: B008  an immutable value
        after: Place = BEGINNING,
    ) -> None:
        self.phase = Phase.IDLE
        self.encoding = encoding
        self.node = ""
        self.held: dict[int, Held] = {}
        self.by_query: dict[int, set[int]] = {}
        """The live or suspended subscriptions of each query in this session."""
        self.unanswered: dict[int, int] = {}
        """Subscriptions that the node has yet to answer, and when it was asked, the longest ago first."""
        self.dropping: dict[int, int] = {}
        """Subscriptions no longer wanted, and when the node was last notified."""
        self.session = ""
        self.applied = 0
        self.as_of: int | None = None
        """The position as of which everything live is right."""
        self.until = 0
        """The end of the lease, on this client's clock."""
        self.touched: set[int] = set()
        self.channels = Memberships(patience.retry)
        """The channels that deliver subscriptions in this session."""
        self.ingest = IngestState(jitter)
        """The rows that the program streams to the node."""
        self._jitter = jitter
        self._patience = patience
        self.incarnation = after.incarnation
        """With a position, the place of what is held and shown."""
        self._after = int(after.position)
        self._attempts = 0
        self._processes: dict[str, NodeProcesses] = {}
        self._why = "no connection was made yet"
        self._doubted: str | None = None
        """Reason why the node does not vouch for its answers at the moment."""
        self._open: Open | None = None
        self._opened = 0
        self._asked_to_open = 0
        self._lease = 0
        self._last_received = 0
        self._next_ack = 0
        self._missed: int | None = None
        self._session_certain = False
        self._seen = 0
        """The position that the client has named to its node, as far as the history of the node's log has it."""
        self._replaced = ""
        """Reason why states were dropped when the connection to this node was opened."""
        self._frozen: set[int] = set()
        """Subscriptions that are not live and were last reported certain."""
        self._frozen_due: int | None = None
        """When the first lease of a frozen subscription may end; never later than it does."""

    def handle(self, event: Event, now: int) -> list[Instruction]:
        """Take one event in. The first is a `ClockTick`: it asks for a connection."""
        out: list[Instruction] = []
        match event:
            case MessageReceived():
                self._received(event, now, out)
            case ClockTick():
                self._tick(now, out)
            case Wanted():
                self.held[event.ref] = self.held_class(event.ref, event.sql)
                self.held[event.ref].delivery = event.delivery
                if self.phase is Phase.OPEN:
                    self._subscribe(self.held[event.ref], now, out)
            case ChannelHeard() | ChannelMissed() | ChannelLost():
                self.channels.handle(event, self, now, out)
            case Unwanted():
                self._unwanted(event.ref, now, out)
            case Opened() if self.phase is Phase.CONNECTING:
                self.phase = Phase.OPENING
                self._open = Open(VERSION, self.furthest(), now, self.incarnation)
                self._opened = self._asked_to_open = now
                out.append(SendMessage(self._open))
            case Lost() if self.phase is not Phase.REFUSED:
                self._lost(event.why, out)
            case Opened() | Lost() | Questioned() | Withdrawn():
                pass
        out += map(SendEncoded, self.ingest.sendable(now))
        self._tell_certainty(now, out)
        return out

    def shown(self, ref: int, now: int) -> Shown:
        """The current state of a subscription that was wanted."""
        held = self.held[ref]
        as_of, until = (self.as_of, self.until) if held.live else (held.as_of, held.until)
        why = self._doubt(held, as_of, until, now)
        return held.shown(as_of, not why, why, self.incarnation)

    @property
    def kept(self) -> int:
        """Up to which position the history of the node's log and what was seen before are one."""
        return self._seen

    @property
    def why(self) -> str:
        """Why the last connection ended."""
        return self._why

    def next_tick(self, now: int) -> int | None:
        """When a `ClockTick` is due; None where nothing waits for one."""
        due = [] if self._frozen_due is None else [self._frozen_due]
        if self._session_certain:
            due.append(self.until)
        match self.phase:
            case Phase.IDLE:
                return now
            case Phase.OPENING:
                due += (self._asked_to_open + self._patience.retry, self._opened + self._patience.opening)
            case Phase.OPEN:
                due += (self._next_ack, self._last_received + 2 * self._lease)
                due += (said + self._patience.retry for said in self.dropping.values())
                due += (asked + self._retry() for asked in islice(self.unanswered.values(), 1))
                due += self.channels.due()
                due += () if (resumed := self.ingest.due()) is None else (resumed,)
            case Phase.CONNECTING | Phase.REFUSED:
                pass
        return min(due, default=None)

    # The connection.

    def _tick(self, now: int, out: list[Instruction]) -> None:
        match self.phase:
            case Phase.IDLE:
                self.phase = Phase.CONNECTING
                out.append(Connect(0))
            case Phase.OPENING if now >= self._opened + self._patience.opening:
                self._lost("the node did not answer", out)
            case Phase.OPENING if now >= self._asked_to_open + self._patience.retry and self._open is not None:
                self._asked_to_open = now
                out.append(SendMessage(self._open))
            case Phase.OPEN if now >= self._last_received + 2 * self._lease:
                self._lost(f"nothing was heard of node {self.node} for two leases", out)
            case Phase.OPEN:
                self._repeat(now, out)
            case _:
                pass

    def _repeat(self, now: int, out: list[Instruction]) -> None:
        if now >= self._next_ack:
            self._next_ack = now + self._lease // 3
            out.append(SendMessage(Ack(self.applied, now)))
        retry = self._retry()
        for ref in sorted(ref for ref, asked in self.unanswered.items() if now >= asked + retry):
            self._subscribe(self.held[ref], now, out)
        self.channels.repeat(self, now, out)
        for ref, said in self.dropping.items():
            if now >= said + self._patience.retry:
                self.drop(ref, now, out)

    def _lost(self, why: str, out: list[Instruction], *, again: bool = True) -> None:
        """The session, if there was one, is over."""
        self._why = why
        self.ingest.lost()
        self.channels.close(out)
        for held in self.held.values():
            held.lose(self.as_of, self.until)
            if held.reported_certain:
                self.touched.add(held.ref)
        self.by_query.clear()
        self.unanswered.clear()
        self.dropping.clear()
        self.session, self.as_of, self.until, self._session_certain = "", None, 0, False
        if not again:
            self.phase = Phase.REFUSED
            for held in self.held.values():
                if held.ended is None:
                    held.ended = why
                    out.append(SubscriptionEnded(held.ref, why))
                    self.touched.add(held.ref)
            return
        self.phase = Phase.CONNECTING
        self._attempts += 1
        out.append(Connect(int(self._patience.backoff.delay(self._attempts, self._jitter)), why))

    def _received(self, event: MessageReceived, now: int, out: list[Instruction]) -> None:
        match event.message:
            case Frame() as frame:
                self._frame(frame, now, out)
            case Welcome() as welcome:
                self._welcome(welcome, now, out)
            case Goodbye(why, again) if self.phase in (Phase.OPENING, Phase.OPEN):
                self._lost(why, out, again=again)
            case Ingested() | IngestRefused() as message if self.phase is Phase.OPEN:
                try:
                    self.ingest.received(message, now)
                except ProtocolError as error:
                    self._lost(str(error), out)
            case _:
                pass

    def _welcome(self, welcome: Welcome, now: int, out: list[Instruction]) -> None:
        if self.phase is not Phase.OPENING or self._open is None or welcome.clock != self._open.clock:
            return
        known = self._processes.setdefault(welcome.node, NodeProcesses())
        if not known.accepts(welcome.generation, welcome.incarnation):
            self._lost(f"an old process of node {welcome.node} answered, which was replaced since", out)
            return
        self._enter(welcome, out)
        self.phase, self.node, self.session, self._lease = Phase.OPEN, welcome.node, welcome.session, welcome.lease
        self.applied, self._missed, self.channels.lease = 0, None, welcome.lease
        self.ingest.opened(welcome.ingest)
        self._last_received, self._next_ack = now, now + welcome.lease // 3
        for held in self.held.values():
            if held.ended is None:
                self._subscribe(held, now, out)

    def furthest(self) -> int:
        """The furthest position of the present history that is known."""
        return max(self._after, *(held.as_of or 0 for held in self.held.values()), 0)

    def _enter(self, welcome: Welcome, out: list[Instruction]) -> None:
        """Go over to the history of a node's log: what is held and was never part of it is dropped."""
        assert self._open is not None
        self.incarnation, self._replaced = welcome.incarnation, ""
        self._seen = min(self._open.after, welcome.kept)
        if self._seen < self._open.after:
            self._replaced = (
                f"the log of node {welcome.node} was replaced, as by a restore from a copy: what was shown as of "
                f"positions after {self._seen} is not part of it"
            )
            self.drop_after(self._seen, out)

    def drop_after(self, position: int, out: list[Instruction]) -> None:
        """Drop what is held as of a later position: it is of another history."""
        self._after = min(self._after, position)
        for held in self.held.values():
            if held.as_of is not None and held.as_of > position:
                held.drop()
                self._frozen.discard(held.ref)
                self.touched.add(held.ref)

    # Frames.

    def _frame(self, frame: Frame, now: int, out: list[Instruction]) -> None:
        if self.phase is not Phase.OPEN or not self.of_this_session(frame):
            return
        self._last_received = now
        self._doubted = frame.doubt
        news = frame.sequence > self.applied
        if frame.base > self.applied or (news and self.channels.are_ahead(frame, self)):
            if self._missed is None or now >= self._missed + self._lease // 10:
                self._missed = now
                out.append(SendMessage(Ack(self.applied, now, missing=True)))
            return
        if frame.sequence < self.applied or self.goes_back(frame, self._seen if self.as_of is None else self.as_of):
            return
        if news:
            try:
                apply(self, frame, now, out)
            except ProtocolError as error:
                self._lost(str(error), out)
                return
            self.applied = frame.sequence
        self.as_of = frame.as_of
        if frame.incarnation is not None and frame.incarnation != self.incarnation:
            # The log went on under another writer: all that came from this node is of its history too.
            self.incarnation, self._seen = frame.incarnation, frame.as_of
        self.until = max(self.until, self.lease_end(frame, now))
        self._attempts = 0
        self.channels.vouch(self.as_of, self.until, self)

    def of_this_session(self, frame: Frame) -> bool:
        """Whether a frame belongs here: it may have been under way when another session began."""
        return frame.session == self.session

    def goes_back(self, frame: Frame, seen: int) -> bool:
        """Whether a frame is as of an earlier position than what has been seen."""
        return frame.as_of < seen

    def lease_end(self, frame: Frame, now: int) -> int:
        """Until when a frame can be relied on: however long it was under way, that is not added."""
        return frame.heard + self._lease

    # Subscriptions.

    def _retry(self) -> int:
        """Microseconds after which an unanswered subscription is asked for again: longer where a node has many."""
        return self._patience.retry * (1 + len(self.unanswered) // ANSWERED_A_RETRY)

    def _subscribe(self, held: Held, now: int, out: list[Instruction]) -> None:
        self.unanswered.pop(held.ref, None)
        self.unanswered[held.ref] = now
        out.append(
            SendMessage(Subscribe(held.ref, held.sql, held.as_of if held.rows is not None else None, held.delivery))
        )

    def _unwanted(self, ref: int, now: int, out: list[Instruction]) -> None:
        held = self.held.pop(ref, None)
        if held is None:
            return
        self.channels.dismiss(held, out)
        listed = self.by_query.get(held.listed, set()) if held.listed is not None else set()
        self.unanswered.pop(ref, None)
        for known in (self._frozen, self.touched, listed):
            known.discard(ref)
        if self.phase is Phase.OPEN and held.ended is None:
            self.drop(ref, now, out)

    def drop(self, ref: int, now: int, out: list[Instruction]) -> None:
        """Tell the node that it is not wanted."""
        self.dropping[ref] = now
        out.append(SendMessage(Unsubscribe(ref)))

    # Certainty.

    def _doubt(self, held: Held, as_of: int | None, until: int, now: int) -> str:
        """Reason why the replica of a subscription is in doubt; empty where it is not."""
        if held.ended is not None:
            return held.ended
        if held.suspended is not None:
            return held.suspended
        if as_of is None:
            return f"no answer has come yet: {self._standing()}"
        if now >= until:
            return f"the lease ended {(now - until) / _SECOND:.1f} s ago: {self._standing()}"
        return ""

    def _standing(self) -> str:
        match self.phase:
            case Phase.OPEN if self._doubted is not None:
                return self._doubted
            case Phase.OPEN if self._replaced:
                return self._replaced
            case Phase.OPEN:
                return f"node {self.node} has been silent, or has yet to answer"
            case Phase.OPENING:
                return "a node is being asked for a session"
            case _:
                return f"there is no connection ({self._why})"

    def _tell_certainty(self, now: int, out: list[Instruction]) -> None:
        certain = self.as_of is not None and now < self.until
        flipped, self._session_certain = certain is not self._session_certain, certain
        refs: Collection[int] = self.held if flipped else self.touched
        if flipped or self.touched >= self._frozen:
            self._frozen_due = None
        elif self._frozen_due is not None and now >= self._frozen_due:
            refs, self._frozen_due = self.touched | self._frozen, None
        for ref in sorted(refs):
            held = self.held[ref]
            shown = self.shown(ref, now)
            if shown.certain is not held.reported_certain:
                held.reported_certain = shown.certain
                out.append(Certainty(ref, shown.certain, shown.why))
            if held.live or not shown.certain:
                self._frozen.discard(ref)
            else:
                self._frozen.add(ref)
                self._frozen_due = held.until if self._frozen_due is None else min(self._frozen_due, held.until)
        self.touched.clear()
