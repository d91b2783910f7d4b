"""Requests to the log: registrations of queries that subscribers wait for, removals of queries without subscribers.

Design
    A request is a record to be appended. It is repeated until the log confirms it, or no subscription waits for it. A
    query without a name is dropped after a while without subscribers, by the node that registered it.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TypeAlias

from slackwater.core.errors import SlackwaterError
from slackwater.core.rights import Grant
from slackwater.hosting.step import Registration
from slackwater.log.records import Registered, Unregistered
from slackwater.sessions.events import Engine
from slackwater.sessions.pending import PendingSubscriptions
from slackwater.sessions.query_registry import QueryRegistry, RegisteredQuery
from slackwater.sessions.registrar import BoundQuery
from slackwater.sessions.router import Elsewhere
from slackwater.sessions.rules import SessionRules
from slackwater.sessions.session import Session, SessionSubscription
from slackwater.sessions.timers import Timers

Refuse: TypeAlias = Callable[[Session, SessionSubscription, SlackwaterError], None]
"""Ends a subscription whose query cannot be registered."""


class RegistrationRequests:
    """The requests of a node, on behalf of the subscriptions that wait in `waiting`."""

    def __init__(
        self,
        rules: SessionRules,
        engine: Engine,
        timers: Timers,
        queries: QueryRegistry,
        waiting: PendingSubscriptions,
        refuse: Refuse,
    ) -> None:
        self.append: list[Registered | Unregistered] = []
        """Records to be appended to the log."""
        self._rules = rules
        self._registrar = engine.registrar
        self._timers = timers
        self._queries = queries
        self._waiting = waiting
        self._refuse = refuse
        self._born = engine.position
        self._asked: Counter[tuple[str, Grant]] = Counter()
        """How many registrations of a text were asked for and have not turned up in the log."""

    def register(self, bound: BoundQuery, owner: str, again: bool, now: int) -> None:
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
                self._refuse(session, subscription, error)
            return
        if record is not None:
            self._asked[asked.text, asked.rights] += 1
            self.append.append(record)
        self._timers.at(now + self._rules.append_again, partial(self.register, asked, owner, True))

    def _asked_again(self, bound: BoundQuery, owner: str) -> BoundQuery:
        """What a text means by now; one that is kept here for its name means what it meant."""
        try:
            return replace(self._registrar.bind(bound.text, owner, self._rules.host), name=bound.name)
        except Elsewhere:
            return bound

    def claims(self, one: Registration) -> bool:
        """True if this node is to drop a query without subscribers.

        If that were so for a text once and for all, two nodes could drop and ask for it in turn for ever. So each
        registration that this node appended counts for one in the log. The owner is ambiguous when two nodes append at
        once; then both nodes drop both, and a node with subscribers registers the query again.
        """
        if one.number < self._born:
            return True
        asked = one.text, one.rights
        former = self._queries.with_text(*asked)
        if self._asked[asked]:
            self._asked[asked] -= 1
            return True
        return former is not None and former.ours

    def watch(self, kept: RegisteredQuery, now: int) -> None:
        """Note that a query has no subscribers, if so, and drop it after a while if that is for this node to do."""
        if not kept.sessions:
            kept.idle_since = now
            if kept.ours and kept.name is None and not kept.watched:
                kept.watched = True
                self._timers.at(now + self._rules.grace, partial(self._drop_idle, kept))

    def _drop_idle(self, kept: RegisteredQuery, now: int) -> None:
        """Drop a query after long enough without subscribers; append that again until the log confirms it."""
        if self._queries.get(kept.number) is not kept or kept.idle_since is None or kept.name is not None:
            kept.watched = False
            return
        due = kept.idle_since + self._rules.grace
        if now >= due:
            self.append.append(Unregistered(kept.query.table, kept.number))
            due = now + self._rules.append_again
        self._timers.at(due, partial(self._drop_idle, kept))
