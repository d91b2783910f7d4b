"""Subscription registry: binds, registers and attaches subscriptions; routes notifications to sessions.

Design
    A text without a query is appended to the log as a registration, and its subscribers wait until the log confirms
    it. All nodes read the same log, so all give it the same number. A query without a name is dropped after a while
    without subscribers on the node that registered it. Another node may have some still: the query is suspended there,
    registered again, and goes on under the new number.

    Nothing is attached in the middle of a step. The engine is then ahead of the facts of the sessions, and an
    answer from it would be stamped with a position before its own.

    A suspended query stays registered, but its changes are not sent: subscribers stay at the last position at which
    all was right. When it is resumed they get its whole state.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import partial

from slackwater.core.errors import AnswerTooLarge, SlackwaterError
from slackwater.core.query import AnswerShape, StandingQuery
from slackwater.core.rights import Grant
from slackwater.dissemination.delivery.base import ChannelPlace, Delivery, DeliveryContext
from slackwater.dissemination.delivery.registry import make_deliveries
from slackwater.dissemination.encoding import Encoding
from slackwater.dissemination.messages import (
    CatchUp,
    Delete,
    Fact,
    Refused,
    Resumed,
    SharedFact,
    Snapshot,
    Subscribe,
    Suspended,
    Upsert,
    Value,
)
from slackwater.kinds.registry import answer_table
from slackwater.log.records import Registered, Unregistered
from slackwater.processing.base import Notifications
from slackwater.sessions.events import (
    Engine,
    QueriesResumed,
    QueriesSuspended,
    QueryRegistered,
    QueryUnregistered,
)
from slackwater.sessions.pending import PendingSubscriptions
from slackwater.sessions.query_registry import QueryRegistry, RegisteredQuery
from slackwater.sessions.registrar import BoundQuery, taken
from slackwater.sessions.relabel_delta import fill
from slackwater.sessions.router import Elsewhere
from slackwater.sessions.rules import SessionRules
from slackwater.sessions.session import Session, SessionSubscription
from slackwater.sessions.timers import Timers
from slackwater.sessions.wire import RowFacts, snapshot, subscribed

_MOST_ENDS = 65_536


class SubscriptionRegistry:
    """The registrations of a node and the references of its sessions."""

    def __init__(
        self, rules: SessionRules, engine: Engine, timers: Timers, channels: ChannelPlace | None = None
    ) -> None:
        self.position = engine.position
        self.queries = QueryRegistry(lambda: engine.registry)
        self.touched: dict[int, Session] = {}
        """Sessions with new facts since the last flush."""
        self.deliveries = make_deliveries(DeliveryContext(self._send, rules.heartbeat, channels))
        """How facts reach the sessions; the first is for those who ask for no other, or for one that is not here."""
        self.append: list[Registered | Unregistered] = []
        """Records to be appended to the log."""
        self._rules = rules
        self._engine = engine
        self._registrar = engine.registrar
        self._limits = engine.registrar.limits
        self._timers = timers
        self._born = engine.position
        self._ends: dict[int, None] = {int(engine.position): None}
        """Where the last steps ended."""
        self._arrived: dict[int, None] = {}
        self._returning: list[tuple[Session, SessionSubscription]] = []
        self._waiting = PendingSubscriptions()
        self._asked: Counter[tuple[str, Grant]] = Counter()
        """How many registrations of a text were asked for and have not turned up in the log."""
        self._granted: Counter[str] = Counter()
        self._outgrown: dict[int, str] = {}
        """Queries suspended because they exceed a limit, with the reason sent to clients."""
        self._recheck_scheduled = False
        """True while a re-check is scheduled."""
        self.send_away: Callable[[Session, str, int], None] = lambda session, why, now: None
        """Ends a session whose client should go to another node."""

    @property
    def in_step(self) -> bool:
        """True while a step of the engine is not reported completely."""
        return self._engine.position != self.position

    # What clients ask.

    def subscribe(self, session: Session, message: Subscribe, now: int) -> None:
        """Grant a subscription, let it wait for its registration, or refuse it. A repeated one changes nothing."""
        if message.ref in session.subscriptions:
            return
        subscription = session.subscriptions[message.ref] = SessionSubscription(
            message.ref, message.held, delivery=message.delivery
        )
        most = self._limits.subscriptions_a_token
        if self._granted[session.principal.name] >= most:
            self._refuse(session, subscription, f"you have {most} subscriptions, as many as are allowed; end one first")
            return
        try:
            bound = self._registrar.bind(message.sql, session.principal.name, self._rules.host)
        except SlackwaterError as error:
            self._refuse(session, subscription, str(error), _host(error))
            return
        subscription.text, subscription.rights, subscription.name = bound.text, bound.rights, bound.name
        self._granted[session.principal.name] += 1
        self._find(session, subscription, bound, now)

    def unsubscribe(self, session: Session, ref: int, now: int) -> None:
        """End a subscription; confirmed also for an unknown one, because clients repeat the request."""
        subscription = session.subscriptions.pop(ref, None)
        if subscription is not None:
            self._detach(session, subscription, now)
        self._send(session, Refused(ref, "it was ended as asked"))

    def catch_up(self, session: Session, message: CatchUp) -> None:
        """Say the state of a query of which a session did not get all facts, and deliver it as asked from now on."""
        subscription = session.subscriptions.get(message.ref)
        kept = None
        if subscription is not None and subscription.number is not None:
            kept = self.queries.get(subscription.number)
        if kept is not None and kept.since is not None and not self.in_step:
            self._deliver(session, kept, self._delivery(session, kept.query, message.delivery))
            self._restate(session, kept)

    def leave(self, session: Session, now: int) -> None:
        """A session is over."""
        for subscription in session.subscriptions.values():
            self._detach(session, subscription, now)
        session.subscriptions.clear()
        self.touched.pop(session.connection, None)

    # Events of the log.

    def registered(self, event: QueryRegistered, now: int) -> None:
        """A query is kept, or is another one from now on."""
        kept = self.queries.get(event.number)
        if kept is None:
            kept = RegisteredQuery(event.registration, event.query, self._limits.recent_keys)
            kept.ours = event.number < self._born or self._asked_for(event)
            self._idle(kept, now)
        elif event.epoch > kept.epoch:
            kept.replace(event.registration, event.query)
            self._part(kept, now)
        else:
            return
        self.queries.add(kept)
        self._arrived[event.number] = None
        if not self.in_step:
            self.settle(now)

    def unregistered(self, event: QueryUnregistered, now: int) -> None:
        """Remove a query. Subscriptions by text register it again."""
        kept = self.queries.remove(event.number)
        if kept is None:
            return
        self._arrived.pop(event.number, None)
        for session in kept.sessions.values():
            session.forget(kept.number)
            session.sizes.pop(kept.number, None)
            session.deliveries.pop(kept.number).leave(kept.number, session)
            for ref in sorted(session.references.pop(kept.number)):
                subscription = session.subscriptions[ref]
                subscription.number, subscription.held = None, None
                if subscription.name is not None:
                    self._end(session, subscription, f"the subscription {subscription.name} was dropped")
                else:
                    why = "the query is not registered at the moment; it is being registered again"
                    self._send(session, Suspended(kept.number, kept.epoch, why))
                    self._returning.append((session, subscription))
        if not self.in_step:
            self.settle(now)

    def review(self, principal: str, now: int) -> None:
        """The rights of a principal are others: its subscriptions are for queries under those.

        The queries that it owns itself follow in the log, under the same numbers.
        """
        for kept in list(self.queries):
            self._part(kept, now, principal)
        self._leave_channels()
        for session, subscription in self._waiting.of(principal):
            self._waiting.remove(session, subscription)
            self._returning.append((session, subscription))
        if not self.in_step:
            self.settle(now)

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

    def _part(self, kept: RegisteredQuery, now: int, awaited: str | None = None) -> None:
        """Part a query from the sessions whose rights are not its own: they ask again under theirs.

        With `awaited` only from its sessions: it is the principal whose rights are others. A query of its own comes
        under them by way of the log.
        """
        for session in list(kept.sessions.values()):
            if awaited is not None and session.principal.name != awaited:
                continue
            rights = self._registrar.rights.of(session.principal.name).on(kept.query.tables)
            if rights == kept.rights:
                for ref in session.references[kept.number]:
                    session.subscriptions[ref].rights = rights
                continue
            if kept.registration.owner == awaited and session.principal.may_register:
                continue
            session.forget(kept.number)
            session.sizes.pop(kept.number, None)
            session.deliveries.pop(kept.number).leave(kept.number, session)
            for ref in sorted(session.references.pop(kept.number)):
                subscription = session.subscriptions[ref]
                subscription.number, subscription.held = None, None
                self._send(session, Suspended(kept.number, kept.epoch, "your rights have changed; it is asked again"))
                self._returning.append((session, subscription))
            del kept.sessions[session.connection]
            self._idle(kept, now)

    def suspend(self, event: QueriesSuspended) -> None:
        """Suspend queries: present and new subscribers are notified with the reason."""
        for number in event.numbers:
            kept = self.queries.get(number)
            if event.outgrown and kept is not None:
                self._outgrown[number] = event.why
                if kept.suspended is not None:
                    # The component that suspended it will resume it.
                    continue
            if kept is not None and kept.suspended != event.why:
                kept.suspended = event.why
                self._each(kept, Suspended(number, kept.epoch, event.why))

    def resume(self, event: QueriesResumed) -> None:
        """Resume queries: subscribers get their whole state."""
        for number in event.numbers:
            kept = self.queries.get(number)
            if kept is None or kept.suspended is None:
                continue
            if number in self._outgrown:
                # It was suspended for two reasons, and one is left.
                self.suspend(QueriesSuspended((number,), self._outgrown[number]))
                continue
            kept.suspended = None
            if kept.since is None:
                continue  # its state is sent at the end of the step that replaces it
            self._renew(kept, Resumed(number, kept.epoch))

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
                self._renew(kept)

    def settle(self, now: int) -> None:
        """Finish a step: attach pending subscriptions, and send replaced queries to their subscribers."""
        arrived, self._arrived = self._arrived, {}
        returning, self._returning = self._returning, []
        for number in arrived:
            kept = self.queries.get(number)
            assert kept is not None
            kept.since = self.position
            kept.recent.forget(self.position)
            for session in kept.sessions.values():
                filled = fill(session, kept, self._engine)
                session.forget(number)
                was = None if filled is None or kept.former is None else kept.former[0]
                for ref in sorted(session.references[number]):
                    self._send(session, self.subscribed(ref, kept, was))
                self._answer(session, kept, self.whole(number, session.encoding) if filled is None else filled)
            kept.former = None
            for session, subscription in self._waiting.served_by(kept.text, kept.rights, kept.name):
                self._attach(session, subscription, kept)
            for session, subscription in self._waiting.beaten_by(kept.text, kept.rights, kept.name):
                assert kept.name is not None
                self._end(session, subscription, str(taken(kept.name)))
        for session, subscription in returning:
            if session.subscriptions.get(subscription.ref) is subscription:
                self._ask_again(session, subscription, now)
        if self._outgrown and not self._recheck_scheduled:
            self._recheck_scheduled = True
            self._timers.at(now + self._rules.heartbeat, self._recheck)

    def _recheck(self, now: int) -> None:
        """Resume a query that no longer exceeds its limit. One at a time, because a re-check takes a while."""
        if not self.in_step:
            number, why = next(iter(self._outgrown.items()))
            del self._outgrown[number]
            kept = self.queries.get(number)
            if kept is not None:
                try:
                    self._engine.recheck(number)
                    # What changed meanwhile may not have been followed.
                    kept.recent.forget(self.position)
                    kept.snapshots.clear()
                    if kept.suspended == why:
                        self.resume(QueriesResumed((number,)))
                except AnswerTooLarge:
                    self._outgrown[number] = why
        self._recheck_scheduled = bool(self._outgrown)
        if self._recheck_scheduled:
            self._timers.at(now + self._rules.heartbeat, self._recheck)

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
            if kept.suspended is None:
                self._outgrown[number] = str(error)
                self.suspend(QueriesSuspended((number,), str(error)))
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

    # The steps of it.

    def _find(self, session: Session, subscription: SessionSubscription, bound: BoundQuery, now: int) -> None:
        """Attach a subscription to the query it asks for, or register that."""
        if subscription.name is None:
            kept = self.queries.with_text(subscription.text, subscription.rights)
        else:
            kept = self.queries.named(subscription.name)
            if kept is not None and (kept.text, kept.rights) != (subscription.text, subscription.rights):
                self._end(session, subscription, str(taken(subscription.name)))
                return
        if kept is not None and kept.since is not None and not self.in_step:
            self._attach(session, subscription, kept)
            return
        first = self._waiting.add(session, subscription)
        if kept is None and not session.principal.may_register:
            # It may turn up in the log; if it does not, it has to be asked for where the log is written.
            self._timers.at(now + self._rules.lease, partial(self._elsewhere, session, subscription))
        elif kept is None and first:
            self._register(bound, session.principal.name, False, now)

    def _ask_again(self, session: Session, subscription: SessionSubscription, now: int) -> None:
        """Bind a subscription anew, because its query is gone or its rights are others."""
        try:
            bound = self._registrar.bind(subscription.text, session.principal.name, self._rules.host)
        except SlackwaterError as error:
            self._end(session, subscription, str(error), _host(error))
            return
        subscription.rights = bound.rights
        self._find(session, subscription, replace(bound, name=subscription.name), now)

    def _elsewhere(self, session: Session, subscription: SessionSubscription, now: int) -> None:
        """Send a client to another node, if its query is not registered and this node cannot register it."""
        waits = subscription.number is None and not subscription.refused
        if waits and session.subscriptions.get(subscription.ref) is subscription:
            self.send_away(session, "a query of yours is not registered, and this node only follows a log", now)

    def _register(self, bound: BoundQuery, owner: str, again: bool, now: int) -> None:
        """Ask the log for a query, and again if it does not turn up there."""
        key = bound.text, bound.rights, bound.name
        waiting = self._waiting.principals(*key)
        if not waiting:
            return
        if owner not in waiting:
            # It waits no longer, because it left or its rights are others; what is asked for is for those who do.
            owner = waiting[0]
        try:
            if again and bound.name is not None:
                # Two asked for the name at once, in two lanes: whichever has it now says what is to be said about that.
                self._registrar.check_name(bound.name, self._rules.host)
            asked = self._asked_again(bound, owner) if again else bound
            record = None if self._registrar.is_registered(asked) else self._registrar.record(asked, owner)
        except SlackwaterError as error:
            for session, subscription in self._waiting.take(*key):
                self._end(session, subscription, str(error), _host(error))
            return
        if record is not None:
            self._asked[asked.text, asked.rights] += 1
            self.append.append(record)
        self._timers.at(now + self._rules.append_again, partial(self._register, asked, owner, True))

    def _asked_again(self, bound: BoundQuery, owner: str) -> BoundQuery:
        """What a text means by now; one that is kept here for its name means what it meant."""
        try:
            return replace(self._registrar.bind(bound.text, owner, self._rules.host), name=bound.name)
        except Elsewhere:
            return bound

    def _asked_for(self, event: QueryRegistered) -> bool:
        """True if this node is to drop a query without subscribers.

        If that were so for a text once and for all, two nodes could drop and ask for it in turn for ever. So each
        registration that this node appended counts for one in the log. The owner is ambiguous when two nodes append at
        once; then both nodes drop both, and a node with subscribers registers the query again.
        """
        asked = event.text, event.registration.rights
        former = self.queries.with_text(*asked)
        if self._asked[asked]:
            self._asked[asked] -= 1
            return True
        return former is not None and former.ours

    def _attach(self, session: Session, subscription: SessionSubscription, kept: RegisteredQuery) -> None:
        number, held = kept.number, subscription.held
        if not kept.warm:
            kept.warm = True
            kept.recent.forget(self.position)
        if held is not None and held <= self._registrar.rights.since(session.principal.name):
            # The rows that the client holds may be those of other rights.
            held = None
        facts = self._since(kept, held)
        was = None if facts is None else kept.epoch
        if facts is None:
            facts = list(self.whole(number, session.encoding))
            if isinstance(facts[0], Suspended):
                self._end(session, subscription, facts[0].why)
                return
            if isinstance(facts[0], Snapshot) and facts[0].count > self._limits.snapshot_rows:
                most = f"{facts[0].count} rows are more than the {self._limits.snapshot_rows} allowed"
                self._end(session, subscription, f"{most}; ask for fewer with WHERE")
                return
            if isinstance(facts[0], Snapshot):
                # All of them may have to go into one frame.
                session.sizes[number] = len(bytes(facts[0].rows))
                if sum(session.sizes.values()) > self._limits.snapshot_bytes:
                    taken = sum(session.sizes.values()) >> 20
                    del session.sizes[number]
                    why = f"the rows of this connection take {taken} MiB together, more than it can carry"
                    self._end(session, subscription, f"{why}; ask for fewer with WHERE, or over another connection")
                    return
        subscription.number, subscription.held = number, None
        session.references.setdefault(number, set()).add(subscription.ref)
        kept.sessions[session.connection] = session
        kept.idle_since = None
        if number not in session.deliveries:
            # A session receives a query in one way: another reference to it changes nothing about that.
            self._deliver(session, kept, self._delivery(session, kept.query, subscription.delivery))
        self._send(session, self.subscribed(subscription.ref, kept, was))
        self._answer(session, kept, facts)

    def _delivery(self, session: Session, query: StandingQuery, name: str) -> Delivery[Session]:
        """The delivery that is asked for, if this node has it and it carries the query to this session.

        Whoever reads a bus may read all that is published there: where rights are set facts go by unicast alone.
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

    def _detach(self, session: Session, subscription: SessionSubscription, now: int) -> None:
        """Take a subscription out of everything that knows it."""
        if subscription.refused:
            return
        self._granted[session.principal.name] -= 1
        if not self._granted[session.principal.name]:
            del self._granted[session.principal.name]
        self._waiting.remove(session, subscription)
        number = subscription.number
        if number is None:
            return
        session.references[number].discard(subscription.ref)
        if session.references[number]:
            return
        del session.references[number]
        session.sizes.pop(number, None)
        session.forget(number)
        session.deliveries.pop(number).leave(number, session)
        kept = self.queries.get(number)
        if kept is not None:
            del kept.sessions[session.connection]
            self._idle(kept, now)

    def _idle(self, kept: RegisteredQuery, now: int) -> None:
        if not kept.sessions:
            kept.idle_since = now
            if kept.ours and kept.name is None and not kept.watched:
                kept.watched = True
                self._timers.at(now + self._rules.grace, partial(self._drop_idle, kept))

    def _drop_idle(self, kept: RegisteredQuery, now: int) -> None:
        """Drop a query after long enough without subscribers; append that again until the log confirms it."""
        if self.queries.get(kept.number) is not kept or kept.idle_since is None or kept.name is not None:
            kept.watched = False
            return
        due = kept.idle_since + self._rules.grace
        if now >= due:
            self.append.append(Unregistered(kept.query.table, kept.number))
            due = now + self._rules.append_again
        self._timers.at(due, partial(self._drop_idle, kept))

    def _end(self, session: Session, subscription: SessionSubscription, why: str, host: str | None = None) -> None:
        """Refuse what was granted or waited for."""
        self._waiting.remove(session, subscription)
        self._granted[session.principal.name] -= 1
        self._refuse(session, subscription, why, host)

    def _refuse(self, session: Session, subscription: SessionSubscription, why: str, host: str | None = None) -> None:
        subscription.refused = True
        self._send(session, Refused(subscription.ref, why, host))

    def _send(self, session: Session, fact: Fact) -> None:
        session.hold(fact)
        self.touched[session.connection] = session

    def _answer(self, session: Session, kept: RegisteredQuery, facts: Iterable[Fact]) -> None:
        """Send a query's answer, or the reason of its suspension."""
        if kept.suspended is not None:
            facts = (Suspended(kept.number, kept.epoch, kept.suspended),)
        for fact in facts:
            self._send(session, fact)
        delivery, suspended = session.deliveries[kept.number], kept.suspended is not None
        for fact in delivery.place(kept.number, kept.epoch, self.position, suspended):
            self._send(session, fact)

    def _renew(self, kept: RegisteredQuery, *first: Fact) -> None:
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
            self._each(kept, fact)

    def _each(self, kept: RegisteredQuery, fact: SharedFact) -> None:
        for delivery in self.deliveries:
            delivery.publish(kept.number, fact)


def _host(error: SlackwaterError) -> str | None:
    """The host whose lane a refusal points to."""
    return error.host.value if isinstance(error, Elsewhere) else None
