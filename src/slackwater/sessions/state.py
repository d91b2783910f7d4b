"""Server state: all sessions of a node without sockets; events in, instructions out.

Design
    The work of an event is in proportion to what it concerns. A step of the log touches the sessions that subscribe to
    what changed in it and no others; each session learns with its next frame, at the latest with a heartbeat, that
    everything else is right as of the new position too. Sessions that are due stand in a heap.

    Frames are sent only between steps, each with everything that is held for its session.
"""

import heapq
from collections.abc import Iterator
from functools import partial

import msgspec

from slackwater.core.lineage import Place
from slackwater.core.types import Position
from slackwater.dissemination.delivery.base import ChannelPlace
from slackwater.dissemination.messages import (
    VERSION,
    Ack,
    Ask,
    CatchUp,
    Fact,
    GiveUp,
    Goodbye,
    Open,
    Report,
    Subscribe,
    Unsubscribe,
    Welcome,
)
from slackwater.sessions.cache_queries import CacheQueries
from slackwater.sessions.events import (
    Append,
    Applied,
    Blocked,
    Close,
    Connected,
    Disconnected,
    Doubted,
    Engine,
    Event,
    IncarnationBegun,
    Instruction,
    QueriesPresent,
    QueriesResumed,
    QueriesSuspended,
    QueryRegistered,
    QueryUnregistered,
    Received,
    RightsChanged,
    Send,
    Tick,
    Writable,
)
from slackwater.sessions.rules import SessionRules
from slackwater.sessions.session import Session
from slackwater.sessions.subscriptions import SubscriptionRegistry
from slackwater.sessions.timers import Timers

_GRID = 32
"""Moments in a heartbeat at which sessions are looked at."""


class ServerState:
    """All sessions and registrations of a node; see `sessions.events` for what may happen and what is answered."""

    session_class: type[Session] = Session
    subscriptions_class: type[SubscriptionRegistry] = SubscriptionRegistry
    questions_class: type[CacheQueries] = CacheQueries

    def __init__(
        self, node: str, generation: int, rules: SessionRules, engine: Engine, channels: ChannelPlace | None = None
    ) -> None:
        self.node = node
        self.generation = generation
        self.rules = rules
        self.limits = engine.registrar.limits
        self.sessions: dict[int, Session] = {}
        self._timers = Timers()
        self.subscriptions = self.subscriptions_class(rules, engine, self._timers, channels)
        self.subscriptions.send_away = self._end
        self._engine = engine
        self.questions = self.questions_class(rules, engine, self.subscriptions)
        self._behind: list[tuple[int, int]] = []
        """Connections whose clients have seen more of the log than this node, by how far they are."""
        self._doubt: str | None = None
        """Reason why the error of answers is unknown; no lease is renewed meanwhile."""
        self._out: list[Instruction] = []

    @property
    def position(self) -> Position:
        """Position up to which everything is sent to the sessions or held for them."""
        return self.subscriptions.position

    def next_tick(self) -> int | None:
        """Time of the next due `Tick`; None without timers."""
        return min((due for due in (self._timers.next, *self._beats()) if due is not None), default=None)

    def _beats(self) -> Iterator[int | None]:
        return (delivery.due for delivery in self.subscriptions.deliveries)

    def handle(self, event: Event, now: int) -> list[Instruction]:
        """Handle one event; returns instructions."""
        match event:
            case Received():
                session = self.sessions.get(event.connection)
                if session is not None:
                    if session.opened or isinstance(event.message, Open):
                        # What comes before a session is opened is passed over: it keeps no connection alive.
                        session.last_received = now
                    self._received(session, event, now)
            case Applied():
                self._applied(event, now)
            case Tick():
                for _, call in self._timers.due(now):
                    call(now)
                for delivery in self.subscriptions.deliveries:
                    if delivery.due is not None and delivery.due <= now and not self.subscriptions.in_step:
                        self._out += delivery.beat(self.position, now)
            case Connected():
                self._connected(event, now)
            case Blocked():
                if event.connection in self.sessions:
                    self.sessions[event.connection].blocked = True
            case Writable():
                session = self.sessions.get(event.connection)
                if session is not None:
                    session.blocked = False
                    self.subscriptions.touched[session.connection] = session
            case Disconnected():
                self._forget(event.connection, now)
            case QueriesPresent(registrations):
                self.subscriptions.present(registrations, now)
            case QueryRegistered():
                self.subscriptions.registered(event, now)
            case RightsChanged(principal):
                self.subscriptions.review(principal, now)
            case QueryUnregistered():
                self.subscriptions.unregistered(event, now)
            case Doubted(why):
                self._doubt = why
            case IncarnationBegun():
                self._part(now)
            case QueriesSuspended():
                self.subscriptions.suspend(event)
            case QueriesResumed():
                self.subscriptions.resume(event)
        return self._instructions(now)

    def _instructions(self, now: int) -> list[Instruction]:
        """Pending instructions, with a frame for each session that was touched."""
        subscriptions = self.subscriptions
        while subscriptions.touched and not subscriptions.in_step:
            # Facts for one session may concern others: a query that turns out to be too large does.
            touched = list(subscriptions.touched.values())
            subscriptions.touched.clear()
            for session in touched:
                self._flush(session, now, heartbeat=False)
        if not subscriptions.in_step:
            for delivery in subscriptions.deliveries:
                self._out += delivery.seal(subscriptions.position, now)
        if subscriptions.append:
            self._out.append(Append(tuple(subscriptions.append)))
            subscriptions.append.clear()
        out, self._out = self._out, []
        return out

    def _flush(self, session: Session, now: int, *, heartbeat: bool) -> None:
        def whole(number: int) -> list[Fact]:
            return list(self.subscriptions.restated(session, number))

        frame = session.frame(self.position, now, whole, heartbeat=heartbeat)
        if frame is not None:
            if self._doubt is not None:
                frame = msgspec.structs.replace(frame, doubt=self._doubt)
            incarnation = self._engine.lineage.current
            if incarnation != session.incarnation:
                frame = msgspec.structs.replace(frame, incarnation=incarnation)
            self._out.append(Send(session.connection, frame))
            if session.questions and any(ask.after <= self.position for ask in session.questions.values()):
                # There was no room for all answers; others have their turn before the next.
                self._timers.at(now, partial(self._touch, session.connection))

    def _touch(self, connection: int, _: int) -> None:
        if connection in self.sessions:
            self.subscriptions.touched[connection] = self.sessions[connection]

    def _applied(self, event: Applied, now: int) -> None:
        subscriptions = self.subscriptions
        subscriptions.position = event.notifications.position
        subscriptions.notify(event.notifications)
        subscriptions.settle(now)
        self.questions.reached()
        while self._behind and self._behind[0][0] <= subscriptions.position:
            _, connection = heapq.heappop(self._behind)
            session = self.sessions.get(connection)
            if session is not None:
                early, session.early = session.early, []
                for message in early:
                    subscriptions.subscribe(session, message, now)
                subscriptions.touched[connection] = session

    def _connected(self, event: Connected, now: int) -> None:
        if len(self.sessions) >= self.limits.connections:
            why = f"this node has {len(self.sessions)} sessions, as many as it may; try another one"
            self._out += (Send(event.connection, Goodbye(why)), Close(event.connection, why))
            return
        identity = f"{self.node}/{self.generation}/{event.connection}"
        session = self.sessions[event.connection] = self.session_class(
            event.connection, identity, event.principal, event.encoding, self.limits, now
        )
        session.answer = self.questions.answering(session)
        self._timers.at(self._on_grid(now + self.rules.heartbeat), partial(self._due, event.connection))

    def _received(self, session: Session, event: Received, now: int) -> None:
        match event.message:
            case Ack() as ack if session.opened:
                self._acknowledged(session, ack, now)
            case Open() as message:
                self._open(session, message)
            case Subscribe() as message if session.opened:
                if len(session.subscriptions) + len(session.early) >= 2 * self.limits.subscriptions_a_token:
                    self._end(session, "there are too many subscriptions and attempts at them in this session", now)
                elif session.after > self.position:
                    session.early.append(message)
                else:
                    self.subscriptions.subscribe(session, message, now)
            case Ask() as message if session.opened:
                self.questions.ask(session, message)
            case Report() as message if session.opened:
                self.questions.report(session, message)
            case GiveUp() as message if session.opened:
                self.questions.give_up(session, message, now)
            case CatchUp() as message if session.opened:
                self.subscriptions.catch_up(session, message)
            case Unsubscribe() as message if session.opened:
                session.early = [early for early in session.early if early.ref != message.ref]
                self.subscriptions.unsubscribe(session, message.ref, now)
            case _:
                # On a network that reorders, what belongs to a session can overtake its beginning; it is sent again.
                pass

    def _open(self, session: Session, message: Open) -> None:
        if message.version != VERSION:
            why = f"this node speaks version {VERSION} of the protocol, you speak {message.version}; update the older"
            self._end(session, why, session.last_received, again=False)
            return
        lineage = self._engine.lineage
        kept = lineage.kept(Place(message.incarnation, Position(message.after)))
        if not session.opened:
            session.opened = True
            session.after, session.incarnation = kept, lineage.current
            self._hear(session, message.clock)
            if kept > self.position:
                heapq.heappush(self._behind, (kept, session.connection))
        who, lease = (session.identity, self.node, self.generation), self.rules.lease
        window = session.principal.ingest
        welcome = Welcome(*who, lease, message.clock, incarnation=lineage.current, kept=kept, ingest=window)
        self._out.append(Send(session.connection, welcome))

    def _part(self, now: int) -> None:
        """End the sessions of clients that have seen more of the incarnation that ended than the log has of it."""
        lineage = self._engine.lineage
        for session in list(self.sessions.values()):
            place = Place(session.incarnation, Position(session.after))
            if session.opened and lineage.kept(place) < place.position:
                self._end(session, "the log goes on from an earlier position than you have seen; come again", now)

    def _acknowledged(self, session: Session, ack: Ack, now: int) -> None:
        if ack.sequence > session.sequence:
            self._end(session, f"frame {ack.sequence} was acknowledged, and {session.sequence} is the last one", now)
            return
        self._hear(session, ack.clock)
        session.acknowledge(ack.sequence)
        if ack.missing and session.miss(now, self.rules.retransmit_again):
            self.subscriptions.touched[session.connection] = session

    def _hear(self, session: Session, clock: int) -> None:
        """Echo a client's clock, which renews its lease, unless the answers are in doubt."""
        if self._doubt is None:
            session.heard = max(session.heard, clock)

    def _due(self, connection: int, now: int) -> None:
        """Check a session once in a heartbeat, or as soon as one is due."""
        session = self.sessions.get(connection)
        if session is None:
            return
        if now >= session.last_received + self.rules.silence:
            self._end(session, f"nothing was heard for {self.rules.silence / 1e6:g} s", now)
            return
        due = session.last_sent + self.rules.heartbeat
        if self._on_grid(due) <= now:
            if not self.subscriptions.in_step:
                self._flush(session, now, heartbeat=True)
            due = now + self.rules.heartbeat
        self._timers.at(max(self._on_grid(due), now + 1), partial(self._due, connection))

    def _on_grid(self, due: int) -> int:
        """A little earlier, at a moment that many sessions share: one tick then serves all of them."""
        return due - due % max(1, self.rules.heartbeat // _GRID)

    def _end(self, session: Session, why: str, now: int, *, again: bool = True) -> None:
        self._out += (Send(session.connection, Goodbye(why, again)), Close(session.connection, why))
        self._forget(session.connection, now)

    def _forget(self, connection: int, now: int) -> None:
        session = self.sessions.pop(connection, None)
        if session is not None:
            self.subscriptions.leave(session, now)
            self.questions.leave(session)
            if session.after > self.position:
                self._behind = [one for one in self._behind if one[1] != connection]
                heapq.heapify(self._behind)
