"""Publication of query answers: whole states, changes of a step and suspensions, by the deliveries of the sessions.

Design
    A session receives a query by one delivery. What all subscribers get goes through every delivery once; what one
    session lacks is held for that session alone. A query's whole state is a value, or a snapshot and the rows that
    changed since it was made; it is made once for all sessions with the same encoding.
"""

from collections.abc import Iterable, Iterator

from slackwater.core.errors import AnswerTooLarge
from slackwater.core.query import AnswerShape, StandingQuery
from slackwater.dissemination.delivery.base import ChannelPlace, Delivery, DeliveryContext
from slackwater.dissemination.delivery.registry import make_deliveries
from slackwater.dissemination.encoding import Encoding
from slackwater.dissemination.messages import Delete, Fact, SharedFact, Suspended, Upsert, Value
from slackwater.kinds.registry import answer_table
from slackwater.processing.base import Notifications
from slackwater.sessions.events import Engine
from slackwater.sessions.query_registry import QueryRegistry, RegisteredQuery
from slackwater.sessions.rules import SessionRules
from slackwater.sessions.session import Session
from slackwater.sessions.suspensions import QuerySuspensions
from slackwater.sessions.timers import Timers
from slackwater.sessions.wire import RowFacts, snapshot, subscribed

_MOST_ENDS = 65_536


class QueryPublication:
    """The registered queries of a node, and how their answers reach its sessions."""

    def __init__(
        self, rules: SessionRules, engine: Engine, timers: Timers, channels: ChannelPlace | None = None
    ) -> None:
        self.position = engine.position
        self.queries = QueryRegistry(lambda: engine.registry)
        self.touched: dict[int, Session] = {}
        """Sessions with new facts since the last flush."""
        self.deliveries = make_deliveries(DeliveryContext(self._send, rules.heartbeat, channels))
        """How facts reach the sessions; the first is for those who ask for no other, or for one that is not here."""
        self._engine = engine
        self._registrar = engine.registrar
        self._suspensions = QuerySuspensions(self, engine, timers, rules.heartbeat)
        self._ends: dict[int, None] = {int(engine.position): None}
        """Where the last steps ended."""

    @property
    def in_step(self) -> bool:
        """True while a step of the engine is not reported completely."""
        return self._engine.position != self.position

    def notify(self, notifications: Notifications) -> None:
        """Deliver the notifications of a step to its subscribers."""
        position = notifications.position
        self._ends[position] = None
        if len(self._ends) > _MOST_ENDS:
            del self._ends[next(iter(self._ends))]
        if notifications.values is not None:
            values = notifications.values
            for number, value, there in zip(
                values.queries.tolist(), values.values.tolist(), values.there.tolist(), strict=True
            ):
                kept = self.queries.get(number)
                if kept is not None and kept.since is not None:
                    kept.value = Value(number, kept.epoch, value if there else None)
                    self._publish(kept, kept.value)
        for rows in notifications.rows:
            facts = RowFacts(rows, self._engine.schema(rows.table))
            for number, place, there in facts.entries():
                kept = self.queries.get(number)
                if kept is None or kept.since is None or not kept.warm:
                    continue
                key = facts.key(place)
                row = facts.row(place, kept.query.columns) if there else None
                fact = Delete(number, kept.epoch, key) if row is None else Upsert(number, kept.epoch, key, row)
                kept.recent.put(position, fact)
                self._publish(kept, fact)

        for number in notifications.anew:
            kept = self.queries.get(number)
            if kept is not None and kept.since is not None and kept.warm:
                kept.recent.forget(position)
                kept.snapshots.clear()
                self.renew(kept)

    def subscribed(self, ref: int, kept: RegisteredQuery, was: int | None = None) -> Fact:
        """Fact of a granted subscription; `was` is the epoch that the facts sent with it build on."""
        return subscribed(ref, kept, self._engine.schema(answer_table(kept.query)), was)

    def whole(self, number: int, encoding: Encoding) -> Iterator[Fact]:
        """Whole state of a query: a value, or a snapshot and the rows that changed since it was made."""
        kept = self.queries.get(number)
        assert kept is not None
        if kept.query.shape is AnswerShape.NUMBER:
            if kept.value is None:
                kept.value = Value(number, kept.epoch, self._engine.answer(number).value)
            yield kept.value
            return
        if encoding in kept.snapshots:
            made, known = kept.snapshots[encoding]
            since = kept.recent.since(made)
            if since is not None and len(since) <= 64 + known.count // 8:
                yield known
                yield from since
                return
        try:
            rows = self._engine.answer(number).rows
        except AnswerTooLarge as error:
            # It was small enough when it was registered. No other subscriber can get all of it either.
            self._suspensions.outgrow(kept, str(error))
            yield Suspended(number, kept.epoch, str(error))
            return
        assert rows is not None
        made_now = snapshot(kept, rows, self._engine.schema(answer_table(kept.query)), encoding)
        kept.snapshots[encoding] = (self.position, made_now)
        yield made_now

    def restated(self, session: Session, number: int) -> Iterator[Fact]:
        """All there is to say about a query to a session of its own.

        A member of a channel may have missed that the query was suspended there: its state would pass for right.
        """
        kept = self.queries.get(number)
        assert kept is not None
        if kept.suspended is None:
            yield from self.whole(number, session.encoding)
        else:
            yield Suspended(number, kept.epoch, kept.suspended)
        yield from session.deliveries[number].place(number, kept.epoch, self.position, kept.suspended is not None)

    def _leave_channels(self) -> None:
        """Deliver by unicast what is delivered otherwise, where that is not allowed any more."""
        if len(self.deliveries) == 1:
            return
        for kept in self.queries:
            for session in kept.sessions.values():
                present = session.deliveries[kept.number]
                wanted = self._delivery(session, kept.query, present.name)
                if wanted is not present:
                    self._deliver(session, kept, wanted)
                    if kept.since is not None and not self.in_step:
                        self._restate(session, kept)

    def _delivery(self, session: Session, query: StandingQuery, name: str) -> Delivery[Session]:
        """The delivery that is asked for, if this node has it and it carries the query to this session.

        A bus shows its readers all that is published there: where rights are set, facts go by unicast alone.
        """
        if self._registrar.rights.grants:
            return self.deliveries[0]
        asked = (one for one in self.deliveries if one.name == name and one.carries(query, session))
        return next(asked, self.deliveries[0])

    def _deliver(self, session: Session, kept: RegisteredQuery, delivery: Delivery[Session]) -> None:
        present = session.deliveries.get(kept.number)
        if present is delivery:
            return
        if present is not None:
            present.leave(kept.number, session)
        session.deliveries[kept.number] = delivery
        delivery.join(kept.number, session)

    def _restate(self, session: Session, kept: RegisteredQuery) -> None:
        """Send a session the whole state of a query, in place of earlier facts."""
        session.forget(kept.number)
        for ref in sorted(session.references[kept.number]):
            self._send(session, self.subscribed(ref, kept))
        self._answer(session, kept, self.whole(kept.number, session.encoding))

    def _since(self, kept: RegisteredQuery, held: int | None) -> list[Fact] | None:
        """Changes since a position whose rows the client still holds; None where they are not known.

        They are known only for positions at which a step of this node ended. Another node cuts the log differently:
        what came and went again within a step here may be held by a client of that node.
        """
        if held is None or kept.query.shape is AnswerShape.NUMBER or kept.since is None:
            return None
        if held < kept.since or held not in self._ends:
            return None
        recent = kept.recent.since(held)
        return None if recent is None else [*recent]

    def _answer(self, session: Session, kept: RegisteredQuery, facts: Iterable[Fact]) -> None:
        """Send a query's answer, or the reason of its suspension."""
        if kept.suspended is not None:
            facts = (Suspended(kept.number, kept.epoch, kept.suspended),)
        for fact in facts:
            self._send(session, fact)
        delivery, suspended = session.deliveries[kept.number], kept.suspended is not None
        for fact in delivery.place(kept.number, kept.epoch, self.position, suspended):
            self._send(session, fact)

    def renew(self, kept: RegisteredQuery, *first: Fact) -> None:
        """Have all who listen take over the whole answer, after these facts."""

        def state(session: Session) -> Iterator[Fact]:
            yield from first
            if kept.suspended is None:
                yield from self.whole(kept.number, session.encoding)
            else:
                yield Suspended(kept.number, kept.epoch, kept.suspended)

        for delivery in self.deliveries:
            delivery.renew(kept.number, state)

    def _publish(self, kept: RegisteredQuery, fact: SharedFact) -> None:
        if kept.suspended is None:
            self.broadcast(kept, fact)

    def broadcast(self, kept: RegisteredQuery, fact: SharedFact) -> None:
        """Send a fact of a query by every delivery."""
        for delivery in self.deliveries:
            delivery.publish(kept.number, fact)

    def _send(self, session: Session, fact: Fact) -> None:
        session.hold(fact)
        self.touched[session.connection] = session
