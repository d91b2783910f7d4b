"""Mutations of the simulation: planted bugs, each in a few lines, that measure the power of its invariants."""

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, replace
from typing import Any

from simulation.host import PlainHost
from simulation.workload import PlainLabEngine
from simulation.world import Setting
from slackwater.client.live.replica import Held
from slackwater.client.live.state import ClientState
from slackwater.core.query import StandingQuery
from slackwater.core.types import Instant
from slackwater.dissemination.messages import Delete, Fact, Frame, Subscribed, Upsert, WireRow
from slackwater.hosting.log_clock import LogClock
from slackwater.hosting.step import Registration
from slackwater.log import Entry, Registered
from slackwater.sessions.events import QueryRegistered, QueryUnregistered
from slackwater.sessions.query_registry import RegisteredQuery
from slackwater.sessions.registrar import BoundQuery
from slackwater.sessions.registration_requests import RegistrationRequests
from slackwater.sessions.session import Session
from slackwater.sessions.state import ServerState
from slackwater.sessions.subscriptions import SubscriptionRegistry


@dataclass(frozen=True)
class Planted:
    """A world in which everything is right but one thing."""

    name: str
    setting: Setting
    begin: int = 0
    """The seed to begin with, for bugs that few worlds show; all others are tried after it."""


def _server(session: type[Session] = Session, desk: type[SubscriptionRegistry] = SubscriptionRegistry) -> Setting:
    class Planted(ServerState):
        session_class = session
        subscriptions_class = desk

    return Setting(server=Planted, engine=PlainLabEngine)


def _client(state: type[ClientState] = ClientState, holds: type[Held] = Held) -> Setting:
    class Planted(state):  # type: ignore[valid-type, misc]
        held_class = holds

    return Setting(client=Planted, engine=PlainLabEngine)


def _host(host: Callable[[], PlainHost]) -> Setting:
    class Planted(PlainLabEngine):
        def __init__(self) -> None:
            super().__init__()
            self.host = host()

    return Setting(engine=Planted)


# Processing.


class AgainstTheLastSample(PlainHost):
    """A slow drift is never reported: each step of it is within the bound of the one before."""

    def __init__(self) -> None:
        super().__init__()
        self._samples: dict[int, float | None] = {}

    def _must_say(self, kept: Any, query: StandingQuery) -> bool:
        truth = self._truth(kept)
        sample = self._samples.get(id(kept), kept.published)
        self._samples[id(kept)] = truth
        if truth is None or sample is None:
            return truth is not sample
        return not query.bound.holds(sample, truth)


class LatePlanTaken(PlainLabEngine):
    """A plan that is not newer replaces the one that is in force."""

    def _register(self, record: Registered, entry: Entry, made: Any) -> None:
        if record.number is None or record.number not in self.registrations:
            super()._register(record, entry, made)
            return
        query = self.bind(record.text)[0]
        self.host.register(record.number, query, entry.end)
        one = Registration(record.number, record.owner, record.name, record.text, entry.first, record.epoch)
        self._standing.add(one, query)
        made.registered.append((one, query))


# The log clock.


class FollowsTheWall(LogClock):
    """When the wall clock is set back, ticks go back with it."""

    def due(self, wall: Instant, periods: Collection[int]) -> Instant | None:
        tick = max(wall - wall % period for period in periods)
        return Instant(tick) if tick != self.last else None

    def after(self, tick: Instant) -> LogClock:
        return FollowsTheWall(tick)


def _from_nothing(last: Instant) -> LogClock:
    return LogClock()


class TimeForgotten(PlainHost):
    """After a restart a host is without log time until the next tick."""

    def restore(self, body: bytes) -> None:
        super().restore(body)
        self._time = Instant(0)


# The node.


class AcknowledgedMore(Session):
    """An acknowledgement is taken for all that was sent: what was lost is never sent again."""

    def acknowledge(self, sequence: int) -> None:
        super().acknowledge(self.sequence)


class _HeartbeatsWhileBlocked(Session):
    said_as_of = 0

    def frame(self, as_of: int, now: int, whole: Callable[[int], Iterable[Fact]], *, heartbeat: bool) -> Frame | None:
        if self.opened and self.blocked and heartbeat and as_of >= self.after:
            return self._frame(self.sequence, self.stamp(as_of), now, ())
        frame = super().frame(as_of, now, whole, heartbeat=heartbeat)
        self.said_as_of = as_of if frame is not None else self.said_as_of
        return frame

    def stamp(self, as_of: int) -> int:
        return as_of


class RenewedWhileHoldingBack(_HeartbeatsWhileBlocked):
    """The lease goes on, and with it the certainty, while the client gets no news."""

    def stamp(self, as_of: int) -> int:
        return self.said_as_of


class StampedTooEarly(_HeartbeatsWhileBlocked):
    """A position is claimed before all facts up to it were sent."""


class DeletesForgotten(Session):
    """What left while the client was slow stays for ever."""

    def hold(self, fact: Fact) -> None:
        if not (self.blocked and isinstance(fact, Delete)):
            super().hold(fact)


class PlanIgnoredByNode(SubscriptionRegistry):
    """Sessions go on under the plan they began with."""

    def registered(self, event: QueryRegistered, now: int) -> None:
        if self.queries.get(event.number) is None:
            super().registered(event, now)


class ResumedFromAnywhere(SubscriptionRegistry):
    """Rows are resumed from positions in the middle of a step of this node."""

    def _since(self, kept: RegisteredQuery, held: int | None) -> list[Fact] | None:
        if held is not None:
            self._ends[held] = None
        return super()._since(kept, held)


class AttachedInTheMiddle(SubscriptionRegistry):
    """Answers from the end of a step are given out as of its beginning."""

    @property
    def in_step(self) -> bool:
        return False


class DroppedInSilence(SubscriptionRegistry):
    """Subscribers of a dropped query get no notification."""

    def unregistered(self, event: QueryUnregistered, now: int) -> None:
        kept = self.queries.get(event.number)
        for session in [] if kept is None else kept.sessions.values():
            session.deliveries.pop(event.number).leave(event.number, session)
            for ref in session.references.pop(event.number):
                session.subscriptions[ref].number = None
        if kept is not None:
            kept.sessions.clear()
        super().unregistered(event, now)


class _DroppedForEver(RegistrationRequests):
    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._ever: set[str] = set()

    def claims(self, one: Registration) -> bool:
        if self._asked[one.text, one.rights]:
            self._ever.add(one.text)
        return one.number < self._born or one.text in self._ever


class DroppedForEver(SubscriptionRegistry):
    """Every node drops its registrations once they have no subscriber there, also if another node has one."""

    requests_class = _DroppedForEver


class _NotAskedAgain(RegistrationRequests):
    def register(self, bound: BoundQuery, owner: str, again: bool, now: int) -> None:
        if not again:
            super().register(bound, owner, again, now)


class NotAskedAgain(SubscriptionRegistry):
    """A registration that does not reach the log is waited for in vain."""

    requests_class = _NotAskedAgain


class BehindTheClient(Session):
    """A node that is behind sends what it has."""

    def may_send(self, position: int) -> bool:
        return self.opened and not self.blocked


class TakesOlder(ClientState):
    """And a client takes it."""

    def goes_back(self, frame: Frame, seen: int) -> bool:
        return False


# The client.


class PlanIgnored(Held):
    """A new plan of a known query is no news, and facts are taken under whichever."""

    def describe(self, fact: Subscribed) -> bool:
        if self.description is not None and fact.query == self.query:
            fact = self.description
        return super().describe(fact)

    def under(self, epoch: int) -> bool:
        return True


class SnapshotAdded(Held):
    """A snapshot adds rows and takes none away."""

    def apply_all(self, rows: Iterable[tuple[WireRow, WireRow]]) -> None:
        for key, row in rows:
            self.apply_row(Upsert(0, 0, key, row))


class AnySession(ClientState):
    """Frames of an earlier session are applied to this one."""

    def of_this_session(self, frame: Frame) -> bool:
        return True


class LeaseFromArrival(ClientState):
    """The time that a frame was under way is added to the lease."""

    def lease_end(self, frame: Frame, now: int) -> int:
        return now + self._lease


class LeaseNeverEnds(ClientState):
    """Once certain, always certain."""

    def lease_end(self, frame: Frame, now: int) -> int:
        return now + 10**12


class GapsIgnored(ClientState):
    """A frame is applied although the one before it is missing."""

    def _frame(self, frame: Frame, now: int, out: list[Any]) -> None:
        super()._frame(Frame(frame.session, 0, frame.sequence, frame.as_of, frame.heard, frame.facts), now, out)


PLANTED = (
    Planted("the bound is checked against the last sample", _host(AgainstTheLastSample)),
    Planted("a late plan is taken", Setting(engine=LatePlanTaken)),
    Planted("an acknowledgement is taken for more than it says", _server(AcknowledgedMore)),
    Planted("the lease is renewed while facts are held back", _server(RenewedWhileHoldingBack)),
    Planted("a position is stamped before all facts are in", _server(StampedTooEarly)),
    Planted("deletes are forgotten while a client is slow", _server(DeletesForgotten)),
    Planted("the node ignores a new plan", _server(desk=PlanIgnoredByNode)),
    # Few worlds show it, and long ones help.
    Planted(
        "rows are resumed from the middle of a step",
        replace(_server(desk=ResumedFromAnywhere), changes=400, chaos=12_000_000),
        29,
    ),
    Planted("an answer is given out in the middle of a step", _server(desk=AttachedInTheMiddle)),
    Planted("a dropped query is not suspended", _server(desk=DroppedInSilence)),
    Planted("two nodes drop and register a query in turn", _server(desk=DroppedForEver)),
    Planted("a lost registration is not asked for again", _server(desk=NotAskedAgain)),
    Planted(
        "a node behind the client is believed",
        Setting(server=_server(BehindTheClient).server, client=TakesOlder, engine=PlainLabEngine),
    ),
    Planted("the client ignores the epoch", _client(holds=PlanIgnored)),
    Planted("a snapshot takes no rows away", _client(holds=SnapshotAdded)),
    # Few worlds show it, and long steps help.
    Planted("frames of another session are applied", replace(_client(AnySession), log_clock=None), 59),
    Planted("the lease begins when a frame arrives", _client(LeaseFromArrival)),
    Planted("the lease never ends", _client(LeaseNeverEnds)),
    Planted("a missing frame is passed over", _client(GapsIgnored)),
    Planted("the log clock follows the wall clock back", Setting(log_clock=FollowsTheWall, engine=PlainLabEngine)),
    Planted("a restarted writer forgets the ticks of the log", Setting(log_clock=_from_nothing, engine=PlainLabEngine)),
    Planted("log time is not in a snapshot", _host(TimeForgotten)),
)
