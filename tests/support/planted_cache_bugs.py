"""Mutations of caches: planted bugs, each in a few lines."""

from collections.abc import Iterable
from typing import Any

from simulation.workload import PlainLabEngine
from simulation.world import Setting
from slackwater.client.cache.state import CacheState
from slackwater.client.cache.table import CachedTable
from slackwater.client.live.events import Questioned
from slackwater.client.live.replica import Held
from slackwater.client.live.state import ClientState
from slackwater.core.region import NOTHING, Region
from slackwater.dissemination.messages import Ask, Delete, Fact, Frame, Reply, SharedFact, Subscribed, Upsert
from slackwater.kinds.cache.query import CacheText, as_cache
from slackwater.sessions.cache_queries import CacheQueries
from slackwater.sessions.conflation import Facts
from slackwater.sessions.session import Session
from slackwater.sessions.state import ServerState
from slackwater.sessions.subscriptions import SubscriptionRegistry
from tests.support.planted_bugs import Planted

_CLIENTS = 4


def _server(
    session: type[Session] = Session,
    desk: type[SubscriptionRegistry] = SubscriptionRegistry,
    asks: type[CacheQueries] = CacheQueries,
    client: type[CacheState] = CacheState,
) -> Setting:
    class Server(ServerState):
        session_class = session
        subscriptions_class = desk
        questions_class = asks

    return Setting(server=Server, client=client, engine=PlainLabEngine, clients=_CLIENTS)


def _client(state: type[CacheState] = CacheState, table: type[CachedTable] | None = None) -> Setting:
    def held(ref: int, sql: str) -> Held:
        text = CacheText.read(sql)
        return Held(ref, sql) if text is None or table is None else table(ref, sql, text)

    class Client(state):  # type: ignore[valid-type, misc]
        held_class = staticmethod(state.held_class if table is None else held)

    return Setting(client=Client, engine=PlainLabEngine, clients=_CLIENTS)


# The node.


class ReplyBeforePushes(Session):
    """A question is answered at once, and what is held back for the client follows in the next frame."""

    def frame(self, as_of: int, now: int, whole: Any, *, heartbeat: bool) -> Frame | None:
        if self.questions and self.holds_back and self.may_send(as_of) and not self._missing:
            pending, self._pending = self._pending, Facts()
            frame = super().frame(as_of, now, whole, heartbeat=heartbeat)
            self._pending = pending
            return frame
        return super().frame(as_of, now, whole, heartbeat=heartbeat)


class AnsweredWhenAsked(CacheQueries):
    """An answer is made when the question comes and is stamped with the position of the frame that carries it later."""

    def ask(self, session: Session, message: Ask) -> None:
        made = self._answer(session, message)
        super().ask(session, message)
        usual = self.answering(session)
        session.answer = lambda ask: made if ask.ref == message.ref else usual(ask)


class SeenNotNamed(CacheState):
    """A session begins without naming what was answered over another connection: frames from before it are taken."""

    def furthest(self) -> int:
        return ClientState.furthest(self)


class EarlierThanAsked(CacheQueries):
    """The position that a question names is not waited for, nor what the client has seen."""

    def ask(self, session: Session, message: Ask) -> None:
        session.after = 0
        super().ask(session, Ask(message.ref, message.table, message.region, 0, message.label))


class OldLabels(CacheQueries):
    """Rows are left out under the labels with which the session began."""

    def remainder(self, session: Session, ask: Ask, region: Region) -> tuple[Region, int | None]:
        kept = None if ask.label is None else self._subscriptions.queries.get(ask.label)
        first = getattr(session, "first_labels", None)
        cache = None if kept is None else as_cache(kept.query)
        if kept is not None and cache is not None and first is None and kept.epoch and not cache.pushed.empty:
            first = session.first_labels = cache.pushed  # type: ignore[attr-defined]
        rest, epoch = super().remainder(session, ask, region)
        return (rest, epoch) if epoch is None or first is None else (region.subtract(first), epoch)


class FillForgotten(SubscriptionRegistry):
    """Labels are sent without the rows that the client lacks."""

    def _answer(self, session: Session, kept: Any, facts: Iterable[Fact]) -> None:
        if as_cache(kept.query) is not None and kept.former is not None:
            facts = [fact for fact in facts if not isinstance(fact, Upsert)]
        super()._answer(session, kept, facts)


class FillLater(Session):
    """Labels are sent at once, and the rows that fill them come with the next frame."""

    def frame(self, as_of: int, now: int, whole: Any, *, heartbeat: bool) -> Frame | None:
        labelled = [fact for fact in self._pending if isinstance(fact, Subscribed) and fact.was is not None]
        if not labelled or not self.may_send(as_of) or self._missing or self._pending_whole:
            return super().frame(as_of, now, whole, heartbeat=heartbeat)
        rest, first = Facts(), Facts()
        for fact in self._pending:
            (first if isinstance(fact, Subscribed) else rest).put(fact)
        self._pending = first
        frame = super().frame(as_of, now, whole, heartbeat=heartbeat)
        self._pending = rest
        return frame


class LeavingNotTold(SubscriptionRegistry):
    """A row that leaves the pushed regions is not published."""

    def _publish(self, kept: Any, fact: SharedFact) -> None:
        if not (isinstance(fact, Delete) and as_cache(kept.query) is not None):
            super()._publish(kept, fact)


class UnacknowledgedForgotten(Session):
    """Rows in flight when labels change are not sent again under the new ones."""

    def unacknowledged(self, query: int) -> Any:
        return set()


# The client.


class AfterTheLease(CacheState):
    """The cache answers although no node vouches for it."""

    def lasts(self, until: int, now: int) -> bool:
        return True


class AnyEpoch(CacheState):
    """A reply made under other labels than the client's is put together with what the client has."""

    def home(self, question: Questioned, reply: Reply) -> Region | None:
        own = self.cached(question.table)
        return NOTHING if own is None or reply.epoch is None else question.region.intersect(own.label)


class Uncovered(CacheState):
    """A question is answered from the cache if any of it is there."""

    def at_home(self, table: str, region: Region, after: int, now: int) -> int | None:
        own = self.cached(table)
        met = NOTHING if own is None else region.intersect(own.region)
        return super().at_home(table, met if not met.empty else region, after, now)


class GoesBack(CacheState):
    """What was seen as of a later position does not keep the cache from answering as of an earlier one."""

    def saw(self, position: int, incarnation: int | None = None) -> None:
        pass


class LeftBehind(CachedTable):
    """Rows that the new labels do not push stay."""

    def _let_go(self, keys: list[Any]) -> None:
        pass


class GivenUpInVain(CachedTable):
    """What was given up is relied on nevertheless."""

    def _rely(self) -> None:
        super()._rely()
        self.region = self.label


class SameVersion(CachedTable):
    """Rows have changed, and what was found before is given again."""

    def _touch(self, key: Any) -> None:
        version = self.version
        super()._touch(key)
        self.version = version


class NoRoom(CachedTable):
    """Nothing is ever given up."""

    def shrink(self, limit: int) -> bool:
        return False


PLANTED = (
    Planted("a reply comes before the pushes", _server(ReplyBeforePushes)),
    Planted("an answer is made before its frame", _server(asks=AnsweredWhenAsked)),
    Planted("a node answers before it has come so far", _server(asks=EarlierThanAsked, client=SeenNotNamed), 48),
    Planted("a remainder is cut by old labels", _server(asks=OldLabels)),
    Planted("labels come without their fill", _server(desk=FillForgotten)),
    Planted("labels take effect before the fill is complete", _server(FillLater)),
    Planted("a row that left a region is kept", _server(desk=LeavingNotTold)),
    Planted("what is under way is forgotten when labels change", _server(UnacknowledgedForgotten)),
    Planted("the cache answers after the lease", _client(AfterTheLease)),
    Planted("a reply under other labels is taken", _client(AnyEpoch)),
    Planted("a question is answered that is not covered", _client(Uncovered)),
    Planted("an answer goes back behind what was delivered", _client(GoesBack)),
    Planted("rows outside the new labels stay", _client(table=LeftBehind)),
    Planted("given-up regions are relied on", _client(table=GivenUpInVain)),
    Planted("what was found before is given after rows have changed", _client(table=SameVersion)),
    Planted("a cache outgrows its room", _client(table=NoRoom)),
)
