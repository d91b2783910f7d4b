"""Mutations of aggregators: planted bugs, each in a few lines."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from simulation.aggregator_world import TreeSetting
from simulation.walk import PlainAggregatorEngine
from slackwater.aggregator.engine import AggregatorEngine
from slackwater.aggregator.upstream.state import UpstreamState, Write
from slackwater.client.live.events import AnswerChanged
from slackwater.client.live.state import ClientState
from slackwater.core.lineage import BEGINNING, Place
from slackwater.core.query import StandingQuery
from slackwater.dissemination.messages import Fact, Resumed
from slackwater.sessions.events import QueriesResumed
from slackwater.sessions.query_registry import RegisteredQuery
from slackwater.sessions.session import Session
from slackwater.sessions.state import ServerState
from slackwater.sessions.subscriptions import SubscriptionRegistry


@dataclass(frozen=True)
class Planted:
    """A world in which everything is right but one thing."""

    name: str
    setting: TreeSetting
    begin: int = 0
    """The seed to begin with, for bugs that few worlds show; all others are tried after it."""


def _upstream(state: type[UpstreamState]) -> TreeSetting:
    return TreeSetting(upstream=state, engine=PlainAggregatorEngine)


def _engine(engine: type[AggregatorEngine]) -> TreeSetting:
    return TreeSetting(engine=engine)


def _server(desk: type[SubscriptionRegistry]) -> TreeSetting:
    class Planted(ServerState):
        subscriptions_class = desk

    return TreeSetting(server=Planted, engine=PlainAggregatorEngine)


class FloorNotSubtracted(PlainAggregatorEngine):
    """Queries are kept within their own bound of what is held, which is off itself."""

    def held(self, query: StandingQuery) -> StandingQuery:
        super().held(query)
        return query


class FloorNotChecked(PlainAggregatorEngine):
    """A bound that cannot be promised is promised, as tightly as can be."""

    def bind(self, sql: str) -> tuple[StandingQuery, str, str | None]:
        from simulation.workload import bound

        return bound(sql)

    def held(self, query: StandingQuery) -> StandingQuery:
        try:
            return super().held(query)
        except Exception:
            return query


class NeverInDoubt(UpstreamState):
    """Once there was no doubt, there never is."""

    _once = False

    @property
    def doubt(self) -> str | None:
        found = super().doubt
        self._once = self._once or found is None
        return None if self._once else found


class TrustedAtOnce(UpstreamState):
    """After a restart, what is in the log is relied on as soon as the upstream answers."""

    @property
    def doubt(self) -> str | None:
        return super().doubt if self._doubts else None


class TrustedAtTheNextWrite(UpstreamState):
    """A write that was begun before the doubt ends it."""

    def ends_doubt(self, write: Write) -> bool:
        return not self._doubts


class NeverLate(UpstreamState):
    """Writes may take as long as they like."""

    def tick(self, now: int) -> None:
        pass


class WrittenInParts(UpstreamState):
    """The value of one item is written although others have not come back yet."""

    def heard(self, client: ClientState, told: Sequence[Any]) -> None:
        super().heard(client, told)
        if client.session and client.as_of is not None and any(isinstance(one, AnswerChanged) for one in told):
            self._settled, self.position = True, max(client.as_of, self.position or 0)


class BegunAnew(UpstreamState):
    """What an earlier life has written is not looked at: numbers and times begin anew."""

    def __init__(self, name: str, items: Any, last: tuple[int, int] = (0, -1), **options: Any) -> None:
        super().__init__(name, items, (0, -1), **options)


class FromTheBeginning(UpstreamState):
    """After a restart, a node that is behind what was written is believed."""

    @property
    def after(self) -> Place:
        return BEGINNING


class ChangesLostWithAWrite(UpstreamState):
    """What could not be written is not written again."""

    def failed(self, write: Write) -> None:
        self.wrote(write)


class ResumedWithoutValues(SubscriptionRegistry):
    """A change during the suspension of a query is never published."""

    def resume(self, event: QueriesResumed) -> None:
        for number in event.numbers:
            kept = self.queries.get(number)
            if kept is not None and kept.suspended is not None:
                kept.suspended = None
                self.broadcast(kept, Resumed(number, kept.epoch))


class LaterOnesNotTold(SubscriptionRegistry):
    """A subscriber of a suspended query gets its answer as if it were certain."""

    def _answer(self, session: Session, kept: RegisteredQuery, facts: Iterable[Fact]) -> None:
        for fact in facts:
            self._send(session, fact)


PLANTED = (
    Planted("the floor is not subtracted", _engine(FloorNotSubtracted)),
    Planted("a bound below the floor is promised", _engine(FloorNotChecked)),
    Planted("a lost upstream is not doubted", _upstream(NeverInDoubt), 2),
    Planted("an aggregator is trusted before its upstream was written", _upstream(TrustedAtOnce)),
    Planted("a write from before a doubt ends it", _upstream(TrustedAtTheNextWrite), 47),
    # Few worlds show it, and long ones help.
    Planted("a write that takes too long is no doubt", replace(_upstream(NeverLate), changes=800, chaos=16_000_000), 1),
    Planted("part of a state is written", _upstream(WrittenInParts), 1),
    Planted("numbers begin anew after a restart", _upstream(BegunAnew)),
    Planted("the upstream goes back after a restart", _upstream(FromTheBeginning), 2),
    Planted("what could not be written is forgotten", _upstream(ChangesLostWithAWrite)),
    Planted("a resumed query is not told anew", _server(ResumedWithoutValues)),
    Planted("who comes later is not told of a suspension", _server(LaterOnesNotTold)),
)
