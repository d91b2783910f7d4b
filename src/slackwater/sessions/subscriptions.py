"""Subscription registry: binds subscriptions, lets them wait for their registrations and attaches them to queries.

Design
    A text without a query is appended to the log as a registration, and its subscribers wait until the log confirms
    it. All nodes read the same log, so all give it the same number. A query without a name is dropped after a while
    without subscribers on the node that registered it. Another node may have some still: the query is suspended there,
    registered again, and goes on under the new number.

    Nothing is attached in the middle of a step. The engine is then ahead of the facts of the sessions, and an
    answer from it would be stamped with a position before its own.

    What the log is asked for is `registration_requests`; how answers reach the sessions is `query_publication`.
"""

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial

from slackwater.core.errors import SlackwaterError
from slackwater.dissemination.delivery.base import ChannelPlace
from slackwater.dissemination.messages import (
    CatchUp,
    Refused,
    Snapshot,
    Subscribe,
    Suspended,
)
from slackwater.hosting.step import Registration
from slackwater.log.records import Registered, Unregistered
from slackwater.sessions.events import (
    Engine,
    QueriesResumed,
    QueriesSuspended,
    QueryRegistered,
    QueryUnregistered,
)
from slackwater.sessions.pending import PendingSubscriptions
from slackwater.sessions.query_publication import QueryPublication
from slackwater.sessions.query_registry import RegisteredQuery
from slackwater.sessions.registrar import BoundQuery, taken
from slackwater.sessions.registration_requests import RegistrationRequests
from slackwater.sessions.relabel_delta import fill
from slackwater.sessions.router import Elsewhere
from slackwater.sessions.rules import SessionRules
from slackwater.sessions.session import Session, SessionSubscription
from slackwater.sessions.timers import Timers


class SubscriptionRegistry(QueryPublication):
    """The registrations of a node and the references of its sessions."""

    requests_class: type[RegistrationRequests] = RegistrationRequests

    def __init__(
        self, rules: SessionRules, engine: Engine, timers: Timers, channels: ChannelPlace | None = None
    ) -> None:
        super().__init__(rules, engine, timers, channels)
        self._rules = rules
        self._limits = engine.registrar.limits
        self._timers = timers
        self._arrived: dict[int, None] = {}
        self._returning: list[tuple[Session, SessionSubscription]] = []
        self._waiting = PendingSubscriptions()
        self._requests = self.requests_class(rules, engine, timers, self.queries, self._waiting, self._end_for)
        self._granted: Counter[str] = Counter()
        self.send_away: Callable[[Session, str, int], None] = lambda session, why, now: None
        """Ends a session whose client should go to another node."""

    @property
    def append(self) -> list[Registered | Unregistered]:
        """Records to be appended to the log."""
        return self._requests.append

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

    def present(self, registrations: Iterable[Registration], now: int) -> None:
        """Take up the queries that stand where the state begins: there are no sessions yet that wait for them."""
        for one in registrations:
            kept = RegisteredQuery(one, None, self._limits.recent_keys, self.queries.load)
            kept.ours = self._requests.claims(one)
            kept.since = self.position
            kept.recent.forget(self.position)
            self.queries.add(kept)
            self._requests.watch(kept, now)

    def registered(self, event: QueryRegistered, now: int) -> None:
        """A query is kept, or is another one from now on."""
        kept = self.queries.get(event.number)
        if kept is None:
            kept = RegisteredQuery(event.registration, event.query, self._limits.recent_keys, self.queries.load)
            kept.ours = self._requests.claims(event.registration)
            self._requests.watch(kept, now)
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
            self._requests.watch(kept, now)

    def suspend(self, event: QueriesSuspended) -> None:
        """Suspend queries: present and new subscribers are notified with the reason."""
        self._suspensions.suspend(event)

    def resume(self, event: QueriesResumed) -> None:
        """Resume queries: subscribers get their whole state."""
        self._suspensions.resume(event)

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
        self._suspensions.schedule_recheck(now)

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
            self._requests.register(bound, session.principal.name, False, now)

    def _ask_again(self, session: Session, subscription: SessionSubscription, now: int) -> None:
        """Bind a subscription anew, because its query is gone or its rights are others."""
        try:
            bound = self._registrar.bind(subscription.text, session.principal.name, self._rules.host)
        except SlackwaterError as error:
            self._end_for(session, subscription, error)
            return
        subscription.rights = bound.rights
        self._find(session, subscription, replace(bound, name=subscription.name), now)

    def _elsewhere(self, session: Session, subscription: SessionSubscription, now: int) -> None:
        """Send a client to another node, if its query is not registered and this node cannot register it."""
        waits = subscription.number is None and not subscription.refused
        if waits and session.subscriptions.get(subscription.ref) is subscription:
            self.send_away(session, "a query of yours is not registered, and this node only follows a log", now)

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
            self._requests.watch(kept, now)

    def _end(self, session: Session, subscription: SessionSubscription, why: str, host: str | None = None) -> None:
        """Refuse what was granted or waited for."""
        self._waiting.remove(session, subscription)
        self._granted[session.principal.name] -= 1
        self._refuse(session, subscription, why, host)

    def _end_for(self, session: Session, subscription: SessionSubscription, error: SlackwaterError) -> None:
        self._end(session, subscription, str(error), _host(error))

    def _refuse(self, session: Session, subscription: SessionSubscription, why: str, host: str | None = None) -> None:
        subscription.refused = True
        self._send(session, Refused(subscription.ref, why, host))


def _host(error: SlackwaterError) -> str | None:
    """The host whose lane a refusal points to."""
    return error.host.value if isinstance(error, Elsewhere) else None
