"""Cache queries: pulls of clients that keep a cache, answered as of a frame, and recorded for planning.

Contract
    1. An answer is right as of the position of its frame, and with that frame everything pushed up to this position has
       been sent: the client can put the two together.
    2. Rows that the asker's own label pushes are left out, if the label is in force for this session; the answer
       carries the epoch of that plan. Where that cannot be worked out all rows are sent.
    3. A question is answered once for each time that it is asked. It waits while the connection takes no more, and
       until the node has come to the position it names.
    4. What is asked, here or at home (`Report`), is remembered for planning, so much of it as there is room for. No
       answer ever depends on it.
    5. A client without room (`GiveUp`) gets labels that push no more than what it keeps, by way of the log.
"""

import logging
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from slackwater.core.errors import AlgebraError, SlackwaterError
from slackwater.core.labels import MOST_PAIRS, MOST_WORK, is_pushable, requested_region
from slackwater.core.query import StandingQuery
from slackwater.core.region import NOTHING, Region
from slackwater.dissemination.encoding import encode_rows
from slackwater.dissemination.messages import Ask, Fact, GiveUp, Reply, Report, Unanswered, WireRegion
from slackwater.kinds.cache.query import CacheQuery, as_cache
from slackwater.kinds.checks import check_region
from slackwater.kinds.registry import conjoin, plain_query
from slackwater.log.records import Registered
from slackwater.sessions.events import Engine
from slackwater.sessions.query_registry import RegisteredQuery
from slackwater.sessions.registrar import plain_rights
from slackwater.sessions.rules import SessionRules
from slackwater.sessions.session import Session
from slackwater.sessions.subscriptions import SubscriptionRegistry
from slackwater.sessions.wire import projected

_report = logging.getLogger("slackwater.server")

MOST_REPORTED = 64
"""Regions of one report that are looked at."""
MOST_REMEMBERED = 5_000
"""Questions of one cache that are remembered for planning."""
MOST_WRITTEN = 4_096
"""Characters that a region takes to be written, if it is to be remembered."""
MOST_CHARACTERS = 256 * 1024
"""Characters of all regions that are remembered of one cache."""
MOST_COUNTED = 1_000_000
"""Times that one entry of a report may count for: a client cannot drown out its own past for ever."""


@dataclass(slots=True)
class CacheDemand:
    """Recent demand of one cache: queried regions with counts, and the share since the last labelling."""

    recent: deque[tuple[Region, int]] = field(default_factory=deque)
    sizes: deque[int] = field(default_factory=deque)
    """Characters of each."""
    written: int = 0
    since: int = 0
    content: int = 1
    """How many times longer than usual it takes until labels are made again: they have been the best for so long."""
    home: int = 0
    """How many of all were answered without asking."""
    pulled: int = 0


class CacheQueries:
    """Cache queries of a node's sessions, beside its subscriptions."""

    def __init__(self, rules: SessionRules, engine: Engine, subscriptions: SubscriptionRegistry) -> None:
        self._rules = rules
        self._engine = engine
        self._subscriptions = subscriptions
        self.asked: dict[int, CacheDemand] = {}
        """By the number of the cache's registration."""
        self._given_up: dict[int, tuple[int, int]] = {}
        """Epoch and time of each cache's last relabelling after `GiveUp`, so that it is appended once."""
        self._early: dict[int, Session] = {}
        """Sessions with queries for a later position than this node's."""

    # Messages of clients.

    def ask(self, session: Session, message: Ask) -> None:
        """Answer with one of the next frames; without room the query is dropped, and the client repeats it."""
        if session.wait(message):
            self._subscriptions.touched[session.connection] = session
            if message.after > self._subscriptions.position:
                self._early[session.connection] = session

    def reached(self) -> None:
        """Release queries whose position the node has reached."""
        for connection, session in list(self._early.items()):
            early = sum(ask.after > self._subscriptions.position for ask in session.questions.values())
            if early < len(session.questions):
                self._subscriptions.touched[connection] = session
            if not early:
                del self._early[connection]

    def leave(self, session: Session) -> None:
        """A session is over."""
        self._early.pop(session.connection, None)
        session.questions.clear()

    def report(self, session: Session, message: Report) -> None:
        """Record queries that clients answered themselves."""
        looked_at = message.counted[:MOST_REPORTED]
        for counted in looked_at:
            kept = self._cache(session, counted.table)
            region = None if kept is None else self._region(counted.table, counted.region, len(looked_at))
            if kept is not None and region is not None:
                times = min(counted.times, MOST_COUNTED)
                self._note(kept, region, times).home += times

    def give_up(self, session: Session, message: GiveUp, now: int) -> None:
        """Append a relabelling that pushes no more than the client has room for."""
        kept = self._subscriptions.queries.get(message.query)
        if kept is None or message.query not in session.references or kept.epoch != message.epoch:
            return
        region = self._region(kept.query.table, message.kept)
        cache = as_cache(kept.query)
        if cache is None or region is None:
            return
        epoch, then = self._given_up.get(kept.number, (-1, 0))
        if epoch == kept.epoch and now < then + self._rules.append_again:
            return
        pushed = cache.pushed
        try:
            region = pushed.intersect(region) if _comparable(pushed, region) else NOTHING
            if _comparable(region, pushed) and region.equals(pushed):
                return
        except AlgebraError:
            region = NOTHING
        self._given_up[kept.number] = (kept.epoch, now)
        self._subscriptions.append.append(relabelled(kept, region if is_pushable(region) else NOTHING))

    # Answers.

    def answering(self, session: Session) -> Callable[[Ask], Fact]:
        """Answer function for the queries of a session."""

        def answer(ask: Ask) -> Fact:
            try:
                return self._answer(session, ask)
            except Exception:
                # Queries are answered between the steps of the log: a failing one must not end the follower.
                _report.exception("question %d of session %s could not be answered", ask.ref, session.identity)
                return Unanswered(ask.ref, "this node could not work out the answer; ask in another way")

        return answer

    def _answer(self, session: Session, ask: Ask) -> Fact:
        region = self._region(ask.table, ask.region)
        if region is None:
            return Unanswered(
                ask.ref, "this is no region of a table that there is: boxes of columns and what each may be"
            )
        kept = self._cache(session, ask.table)
        if kept is not None:
            self._note(kept, region, 1).pulled += 1
        try:
            allowed = region.intersect(self._engine.registrar.rights.of(session.principal.name).of(ask.table))
            wanted, epoch = self.remainder(session, ask, allowed)
            schema = self._engine.schema(ask.table)
            rows = self._engine.select(ask.table, wanted)
        except SlackwaterError as error:
            return Unanswered(ask.ref, str(error))
        too_many = Unanswered(ask.ref, f"{rows.num_rows} rows are more than one answer can carry; ask for fewer")
        limits = self._engine.registrar.limits
        most, most_bytes = limits.query_rows, min(limits.snapshot_bytes, limits.query_bytes)
        if rows.num_rows > most or rows.nbytes > most_bytes:
            return too_many
        names = tuple(column.name for column in schema.columns)
        places = [names.index(name) for name in schema.key]
        pairs = [(tuple([row[place] for place in places]), row) for row in projected(rows, names)]
        data, digest = encode_rows(pairs, session.encoding)
        if memoryview(data).nbytes > most_bytes:
            return too_many
        return Reply(ask.ref, epoch, data, len(pairs), digest, schema.shape)

    def remainder(self, session: Session, ask: Ask, region: Region) -> tuple[Region, int | None]:
        """The part of a region that the asker's label does not push, and its epoch; all of it where in doubt."""
        kept = None if ask.label is None else self._subscriptions.queries.get(ask.label)
        if kept is None or kept.since is None or kept.suspended is not None or kept.number not in session.references:
            return region, None
        cache = as_cache(kept.query)
        if cache is None or cache.table != ask.table or not _comparable(region, cache.pushed):
            return region, None
        try:
            return region.subtract(cache.pushed), kept.epoch
        except AlgebraError:
            return region, None

    # What is remembered.

    def forget(self, kept: RegisteredQuery) -> None:
        """Forget the recorded demand of a cache."""
        self.asked.pop(kept.number, None)

    def caches(self) -> list[tuple[RegisteredQuery, CacheQuery]]:
        """The caches that clients keep, and what is pushed to them."""
        found = ((kept, as_cache(kept.query)) for kept in self._subscriptions.queries.caches.values())
        return [(kept, cache) for kept, cache in found if cache is not None]

    def _cache(self, session: Session, table: str) -> RegisteredQuery | None:
        """The cache that a session keeps of a table."""
        for number in session.references:
            kept = self._subscriptions.queries.get(number)
            if kept is not None and kept.query.table == table and as_cache(kept.query) is not None:
                return kept
        return None

    def _region(self, table: str, plain: WireRegion, among: int = 1) -> Region | None:
        """Decode an untrusted region, one of `among` in a message; None where it is invalid for this table."""
        try:
            region = requested_region(plain, among)
            check_region(region, self._engine.schema(table))
            return region
        except SlackwaterError:
            return None

    def _note(self, kept: RegisteredQuery, region: Region, times: int) -> CacheDemand:
        """Record a query, if it is not too long; returns the demand of its cache."""
        asked = self.asked.get(kept.number)
        if asked is None:
            alive = {one.number for one in self._subscriptions.queries}
            self.asked = {number: known for number, known in self.asked.items() if number in alive}
            self._given_up = {number: last for number, last in self._given_up.items() if number in alive}
            asked = self.asked[kept.number] = CacheDemand()
        size = len(str(region))
        if size > MOST_WRITTEN:
            return asked
        asked.recent.append((region, times))
        asked.sizes.append(size)
        asked.written += size
        asked.since += times
        while len(asked.recent) > MOST_REMEMBERED or asked.written > MOST_CHARACTERS:
            asked.recent.popleft()
            asked.written -= asked.sizes.popleft()
        return asked


def _comparable(a: Region, b: Region) -> bool:
    pairs, work = len(a.boxes) * len(b.boxes), len(a.boxes) * b.weight + len(b.boxes) * a.weight
    return pairs <= MOST_PAIRS and work <= MOST_WORK


def relabelled(kept: RegisteredQuery, region: Region, columns: tuple[str, ...] | None = None) -> Registered:
    """The record that gives a cache other labels under the next epoch, of rows that its owner may see."""
    one, cache = kept.registration, as_cache(kept.query)
    assert cache is not None
    query: StandingQuery = replace(cache, columns=columns or cache.columns, region=region)
    if one.rights.regions:
        try:
            query = conjoin(query, one.rights)
        except AlgebraError:
            query = replace(cache, columns=columns or cache.columns, region=NOTHING)
        pushed = query.pushed
        if pushed is None or not is_pushable(pushed):
            query = replace(cache, columns=columns or cache.columns, region=NOTHING)
    rights = plain_rights(one.rights)
    return Registered(
        cache.table, one.text, one.owner, one.name, one.number, one.epoch + 1, plain_query(query), rights=rights
    )
