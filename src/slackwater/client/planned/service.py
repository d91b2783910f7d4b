"""Planned-sum service: plans from the node, parts from aggregators, one value for the program.

The node says in the lane `network` what the plan of a query is; it is a subscription like any other, whose rows are
the parts. Each aggregator has a session of its own here, for as long as parts of it are wanted. What is added up, and
when another plan is taken up, is decided by `partial_sum`.
"""

import asyncio
import contextlib
import random
import weakref
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import msgspec

from slackwater.client.address import Address, addresses
from slackwater.client.live.connection import Dialler, LiveSession, ProgramEvent, microseconds
from slackwater.client.live.events import AnswerChanged, Lost, Shown
from slackwater.client.live.subscription import Subscription
from slackwater.client.planned.partial_sum import PartialSum, Step, SubscribePart, SumPart, UnsubscribePart, part_of
from slackwater.client.rest import Rest
from slackwater.core.errors import ProtocolError, SlackwaterError

LANE = "network"
AGAIN_SECONDS = 1.0
"""Until a part is asked for again that its aggregator refused: it may hold more by then, or the plan is another."""
REPORT_SECONDS = 10.0
_ASKED = 2
"""Messages that it takes to begin or to end a part: the request and its answer."""


class Network:
    """All planned sums of one client.

    `carriers`: to the node, and to aggregators. `back`: whom to give a sum that the node does not plan any more.
    """

    def __init__(
        self,
        here: Sequence[Address],
        carriers: tuple[Dialler, Dialler],
        rest: Rest,
        back: Callable[[Subscription, str], None],
    ) -> None:
        self._here = here
        self._carrier, self._direct = carriers
        self._rest = rest
        self._back = back
        self.saw: Callable[[int, int], None] = lambda position, incarnation: None
        """Called with the delivered position of the node's own log; aggregators have positions of their own."""
        self._plans: LiveSession | None = None
        self._sessions: dict[tuple[str, ...], LiveSession] = {}
        self._sums: dict[int, PlannedSum] = {}
        self.owners: dict[tuple[tuple[str, ...] | None, int], int] = {}
        """Whose part, or plan (without nodes), a subscription in a session is."""
        self.watched: set[int] = set()
        """Sums with a waiting caller."""
        self._tasks: set[asyncio.Task[Any]] = set()
        self._numbers = 0
        self._reporting: asyncio.Task[None] | None = None
        self._loop = asyncio.get_running_loop()

    def adopt(self, subscription: Subscription) -> None:
        """Want a sum that the node has planned."""
        self._numbers += 1
        if self._plans is None:
            self._plans = self._session(self._here, LANE, None)
            self._reporting = self._loop.create_task(self._report())
        plan = self._plans.subscribe(subscription.sql)
        self.owners[None, plan.ref] = self._numbers
        one = self._sums[self._numbers] = PlannedSum(self, self._numbers, subscription, plan)
        weakref.finalize(subscription, self._let_go, self._numbers).atexit = False
        subscription._move(one, self._numbers)
        # Its waiting callers wait here from now on.
        self.watched.add(self._numbers)
        one.look()

    def _session(self, where: Sequence[Address], lane: str | None, nodes: tuple[str, ...] | None) -> LiveSession:
        elsewhere = self._redirected if lane == LANE else None
        heard = partial(self._heard, nodes)
        carrier = self._direct if nodes else self._carrier
        return LiveSession(where, carrier, random.random, lane=lane, elsewhere=elsewhere, heard=heard)

    def session(self, nodes: tuple[str, ...]) -> LiveSession:
        """The session with an aggregator; without addresses, with the node that plans."""
        if nodes not in self._sessions:
            where, lane = (addresses(nodes), None) if nodes else (self._here, "node")
            self._sessions[nodes] = self._session(where, lane, nodes)
            if not nodes:
                self._sessions[nodes].moved = self.saw
        return self._sessions[nodes]

    def unneeded(self, nodes: tuple[str, ...]) -> None:
        """A part of an aggregator is not wanted any more: without another one, its session ends."""
        wanted = {part.nodes for one in self._sums.values() for part in one.adding.parts.values()}
        session = None if nodes in wanted else self._sessions.pop(nodes, None)
        if session is not None:
            self._later(session.close())

    def _later(self, work: Any) -> None:
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _heard(self, nodes: tuple[str, ...] | None, events: Sequence[ProgramEvent]) -> None:
        """Handle an event of a session: update the sums it concerns, and release their waiting callers."""
        concerned = {self.owners.get((nodes, one.ref)) for one in events} | self.watched
        for number in concerned:
            one = None if number is None else self._sums.get(number)
            if one is not None:
                one.look(nodes, events)

    def _redirected(self, plan: Subscription, host: str) -> None:
        """The node does not plan a query any more, and keeps it otherwise."""
        for number, one in list(self._sums.items()):
            if one.plan is plan:
                subscription = one.subscription()
                self.end(number)
                if subscription is not None:
                    self._back(subscription, host)

    def _let_go(self, number: int) -> None:
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self.end, number)

    def unreadable(self, why: str) -> None:
        """Reject an impossible plan: the request goes to the node again, or to another one."""
        if self._plans is not None:
            self._plans.dispatch(Lost(why))

    def end(self, number: int) -> None:
        """A sum is not wanted any more."""
        one = self._sums.pop(number, None)
        if one is not None:
            one.close()

    async def _report(self) -> None:
        """Tell the node now and then how its plans do."""
        while True:
            await asyncio.sleep(REPORT_SECONDS)
            for one in list(self._sums.values()):
                await one.report(self._rest)

    async def close(self) -> None:
        """End everything."""
        if self._reporting is not None:
            self._reporting.cancel()
            # A request under way has a socket to let go of.
            await asyncio.gather(self._reporting, return_exceptions=True)
        for number, one in list(self._sums.items()):
            subscription = one.subscription()
            if subscription is not None:
                subscription._end(None)
            self.end(number)
        sessions = [*self._sessions.values(), *([] if self._plans is None else [self._plans])]
        for session in sessions:
            await session.close()
        if self._tasks:
            await asyncio.wait(self._tasks)


class PlannedSum:
    """One planned sum: a `SubscriptionService` for its subscription."""

    def __init__(self, network: Network, number: int, subscription: Subscription, plan: Subscription) -> None:
        self.adding = PartialSum()
        self.plan = plan
        self.subscription = weakref.ref(subscription)
        self._network = network
        self._number = number
        self._parts: dict[int, tuple[SumPart, Subscription]] = {}
        self._last_shown: float | None = None
        self._first = True
        self._looking = False
        self._fresh: set[int] = set()
        """Parts whose first answer is yet to come."""
        self._again: set[int] = set()
        """Parts that were refused and will be asked for again."""
        self._unreadable = ""
        """Reason why the latest plan cannot be followed; the one before serves."""
        self._tally = Tally()

    # For the subscription.

    def shown(self, ref: int) -> Shown:
        """The current state of the sum."""
        return self.adding.shown(self._part, self._unreadable or self.plan.why or "its plan is awaited")

    def watch(self, ref: int) -> None:
        """Note that a caller waits for a change of it."""
        self._network.watched.add(self._number)

    def unsubscribe(self, ref: int) -> None:
        """It is not wanted any more."""
        self._network.end(self._number)

    def close(self) -> None:
        """Let everything go."""
        self._network.watched.discard(self._number)
        self._network.owners.pop((None, self.plan.ref), None)
        _let_go(self.plan)
        self.adding.parts.clear()
        for place in list(self._parts):
            self._drop(place)

    def _part(self, place: int) -> Shown:
        return self._parts[place][1].shown

    # What happens.

    def look(self, nodes: tuple[str, ...] | None = None, events: Sequence[ProgramEvent] = ()) -> None:
        """Handle an event of the session with these nodes."""
        subscription = self.subscription()
        if self._looking or subscription is None:
            return
        # A request for a part may produce an event at once.
        self._looking = True
        try:
            moved = self._count(nodes, events)
            self._follow_plan()
            self._do(self.adding.look(self._part))
            self._ask_again()
            anew = nodes is None and any(isinstance(one, AnswerChanged) and one.ref == self.plan.ref for one in events)
            if self._unreadable and anew:
                # Once for each such plan: what is shown of it stays the same until there is another.
                self._network.unreadable(self._unreadable)
        finally:
            self._looking = False
        if self.plan._over is not None:
            subscription._end(self.plan._over)
            self._network.end(self._number)
            return
        shown = self.shown(0)
        self._tally.pass_time(microseconds(), shown.certain)
        if shown.positions is not None and (self._first or self._last_shown != shown.value):
            self._last_shown, self._first = shown.value, False
            subscription._changed(AnswerChanged(self._number, moved, shown.value))
        if not subscription._look():
            self._network.watched.discard(self._number)

    def _count(self, nodes: tuple[str, ...] | None, events: Sequence[ProgramEvent]) -> int:
        """Count the events of the parts; return the position, at its aggregator, at which one of them moved."""
        position = 0
        refs = {one.ref: one.as_of for one in events if isinstance(one, AnswerChanged)}
        for place, (part, subscription) in self._parts.items():
            if nodes == part.nodes and subscription.ref in refs:
                position = refs[subscription.ref]
                if place in self._fresh:
                    self._fresh.discard(place)
                else:
                    self._tally.messages += 1
        return position

    def _follow_plan(self) -> None:
        plan = self.plan.shown
        if not plan.rows or plan.as_of is None or plan.query is None or plan.epoch is None:
            return
        try:
            parts = [_checked(part_of(row)) for row in plan.rows.values()]
        except ProtocolError as error:
            # The session of the event is none of its concern.
            self._unreadable = str(error)
            return
        self._unreadable = ""
        steps = self.adding.plan((plan.query, plan.epoch), plan.as_of, plan.bound, parts, plan.incarnation)
        self._tally.planning += bool(steps)
        self._do(steps)

    def _do(self, steps: Sequence[Step]) -> None:
        for step in steps:
            self._tally.planning += _ASKED
            match step:
                case SubscribePart(place, part):
                    self._fresh.add(place)
                    self._ask(place, part)
                case UnsubscribePart(place):
                    self._drop(place)

    def _ask(self, place: int, part: SumPart) -> None:
        subscription = self._network.session(part.nodes).subscribe(part.sql)
        self._network.owners[part.nodes, subscription.ref] = self._number
        self._parts[place] = (part, subscription)

    def _drop(self, place: int) -> None:
        part, subscription = self._parts.pop(place)
        self._fresh.discard(place)
        self._network.owners.pop((part.nodes, subscription.ref), None)
        _let_go(subscription)
        self._network.unneeded(part.nodes)

    def _ask_again(self) -> None:
        for place, (_, subscription) in self._parts.items():
            if subscription._closed and place not in self._again:
                self._again.add(place)
                asyncio.get_running_loop().call_later(AGAIN_SECONDS, self._asked_again, place)

    def _asked_again(self, place: int) -> None:
        self._again.discard(place)
        if place in self._parts:
            part, subscription = self._parts[place]
            self._network.owners.pop((part.nodes, subscription.ref), None)
            _let_go(subscription)
            self._ask(place, part)
            self.look()

    async def report(self, rest: Rest) -> None:
        """Report to the node the counts since the last report; a lost report is not repeated."""
        which = self.adding.which
        body = self._tally.taken()
        if which is not None and body is not None:
            with contextlib.suppress(SlackwaterError):
                path = f"/v1/subscriptions/{which[0]}/seen"
                await rest.request("POST", path, content=msgspec.json.encode(body), safe=False, patience=1.0)


def _checked(part: SumPart) -> SumPart:
    """A part whose aggregator has addresses that can be dialled; before anything is done about the plan."""
    try:
        if part.nodes:
            addresses(part.nodes)
    except ValueError as error:
        raise ProtocolError(f"a plan names an aggregator that cannot be reached: {error}") from None
    return part


def _let_go(subscription: Subscription) -> None:
    """As `close`: no caller waits there."""
    if subscription._last is None:
        subscription._end(None)
        subscription._service.unsubscribe(subscription.ref)


class Tally:
    """Counters for the node's planner; time counts from when the sum was first certain."""

    def __init__(self) -> None:
        self.messages = 0
        self.planning = 0
        self._seconds = self._uncertain = 0.0
        self._last: tuple[int, bool] | None = None

    def pass_time(self, now: int, certain: bool) -> None:
        """It is certain from now on, or is not."""
        if self._last is not None:
            since, was = self._last
            self._seconds += (now - since) / 1_000_000
            self._uncertain += 0.0 if was else (now - since) / 1_000_000
        if certain or self._last is not None:
            self._last = (now, certain)

    def taken(self) -> dict[str, float] | None:
        """All since this was last taken; None before it was certain for the first time."""
        if self._last is None:
            return None
        self.pass_time(microseconds(), self._last[1])
        counted = {
            "seconds": self._seconds,
            "uncertain": self._uncertain,
            "messages": self.messages,
            "planning": self.planning,
        }
        self._seconds = self._uncertain = 0.0
        self.messages = self.planning = 0
        return counted
