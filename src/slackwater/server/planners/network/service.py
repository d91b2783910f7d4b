"""Network planner service: polls aggregators, and carries plans to sessions and into the log.

    aggregators ─▶ asked every second ─▶ state ─▶ registrations ─▶ log ─▶ the node's engine ─▶ state ─▶ sessions

Everything that is decided is decided by `state`.
"""

import asyncio
import logging
import math
from collections.abc import Callable, Coroutine, Iterable
from typing import Any, Protocol

import httpx
import msgspec

from slackwater.core.errors import ProtocolError
from slackwater.core.hosts import HostKind
from slackwater.core.query import Aggregate, StandingQuery
from slackwater.core.statement import Subscribe
from slackwater.core.types import Key
from slackwater.hosting.step import Registration
from slackwater.kinds.registry import plain_query
from slackwater.log.records import Registered
from slackwater.planning.aggregation.movement import Column
from slackwater.processing.base import Notifications
from slackwater.server.lanes.network import NetworkLane, plan_rows
from slackwater.server.planners.base import NodePlanner
from slackwater.server.planners.network.base import HERE, AggregatorReport, Instruction, Replan, Resume, Suspend
from slackwater.server.planners.network.configuration import KnownAggregator, NetworkSettings
from slackwater.server.planners.network.explain import explained, figures_of
from slackwater.server.planners.network.plannable import plannable
from slackwater.server.planners.network.planner import rehearse
from slackwater.server.planners.network.state import NetworkState
from slackwater.server.session_host import microseconds
from slackwater.server.upstreams import Offers, PlannedFigures
from slackwater.sessions.engine import NodeEngine
from slackwater.sessions.events import (
    Append,
    Applied,
    QueriesResumed,
    QueriesSuspended,
    QueryRegistered,
    QueryUnregistered,
)
from slackwater.sessions.registrar import plain_rights
from slackwater.sessions.router import Router
from slackwater.sql import Catalog, ExplainTree, to_sql

_report = logging.getLogger("slackwater.server")
_UNPLANNABLE = (
    "the query cannot be planned any more, because its table, or what is planned, is another: subscribe again"
)
LARGEST_ANSWER = 64 << 20
_MOST_COUNTED = 2**53


class Around(Protocol):
    """Interface of the planner to its node."""

    generation: int

    def notifications_of(self, text: str) -> int | None:
        """Number of notifications of a query of this node; None where it is not of this node."""
        ...


class NetworkPlanner(NodePlanner):
    """The sessions of planned queries, and all that is done for them. `found`: where a node beside this one listens."""

    def __init__(
        self,
        settings: NetworkSettings,
        around: Around,
        engine: NodeEngine,
        router: Router,
        lane: NetworkLane,
        append: Callable[[Append], None],
        found: Callable[[str], str | None],
    ) -> None:
        self.settings = settings
        self._around = around
        self._engine = engine
        self._append = append
        self._found = found
        names = [one.name for one in settings.aggregators]
        self.state = NetworkState(names, settings.rules, settings.movement, self._text_of)
        router.plans = self
        lane.plans.rows = self._rows
        self.sessions = lane.sessions
        self._urls: dict[str, tuple[str, ...]] = {}

    # ---- which queries

    def could_take(self, query: StandingQuery) -> bool:
        """True if a query can be planned at all."""
        return self.as_planned(query) is not None

    def takes(self, query: StandingQuery) -> bool:
        """True if a query is planned: an aggregator holds items of it, and it is no part assigned to this node."""
        planned = self.as_planned(query)
        return planned is not None and self.state.concerns(planned) and not self.state.kept_here(planned)

    def as_planned(self, query: StandingQuery) -> Aggregate | None:
        """A query in the form that it is planned in."""
        return None if query.table not in self._engine.tables else plannable(query, self._engine.schema(query.table))

    def _text_of(self, query: Aggregate) -> str:
        return to_sql(Subscribe(query), Catalog((self._engine.schema(query.table),)))

    def _rows(self, number: int) -> list[tuple[Any, Any]]:
        known = self.state.queries.get(number)
        return plan_rows(None if known is None else known.plan, self._nodes_of)

    def _nodes_of(self, aggregator: str) -> tuple[str, ...]:
        return () if aggregator == HERE else self._urls.get(aggregator, ())

    def explain(self, query: StandingQuery, number: int | None = None) -> ExplainTree | None:
        """EXPLAIN of the plan of a query, in force or hypothetical; None where it is not planned."""
        planned = self.as_planned(query)
        if planned is None or (number is None and not self.takes(query)):
            return None
        if number is None:
            number = next((one.number for one in self.state.queries.values() if one.query == planned), None)
        return explained(self.state, planned, None if number is None else self.state.queries.get(number))

    def figures(self, number: int) -> PlannedFigures | None:
        """Predictions and measurements of a plan."""
        planned = self.state.queries.get(number)
        return None if planned is None else figures_of(self.state, planned)

    # ---- what the log says

    def start(self) -> None:
        """Resume the plans of an earlier process from its registrations."""
        rehearse()
        self._engine.planned.clear()
        for one in self._engine.registrations.values():
            if one.host is HostKind.NETWORK:
                self._registered(one, restored=True)
        self.sessions.handle(Applied(Notifications(self._engine.position)))

    def followed(self) -> None:
        """The node has applied a step."""
        changed, self._engine.planned = self._engine.planned, set()
        for number in sorted(changed):
            one = self._engine.registrations.get(number)
            if one is not None:
                self._registered(one, restored=False)
            else:
                self.state.unregistered(number)
                self.sessions.handle(QueryUnregistered(number))
        self.sessions.handle(Applied(Notifications(self._engine.position)))

    def _registered(self, one: Registration, *, restored: bool) -> None:
        query = self._engine.query(one.number)
        planned = self.as_planned(query)
        instructions: Iterable[Instruction] = [Suspend(one.number, _UNPLANNABLE)]
        if planned is None:
            # No plan of what it was before may be put in force.
            self.state.unregistered(one.number)
        else:
            instructions = self.state.registered(one.number, one.epoch, planned, microseconds(), restored=restored)
        self.sessions.handle(QueryRegistered(one, query))
        self._do(instructions)

    def _do(self, instructions: Iterable[Instruction]) -> None:
        for instruction in instructions:
            match instruction:
                case Replan(number, epoch):
                    self._register_again(number, epoch)
                case Suspend(number, why):
                    _report.warning("query %d is suspended: %s", number, why)
                    self.sessions.handle(QueriesSuspended((number,), why))
                case Resume(number):
                    self.sessions.handle(QueriesResumed((number,)))

    def _register_again(self, number: int, epoch: int) -> None:
        one = self._engine.registrations.get(number)
        if one is None:
            return
        query = self._engine.query(number)
        _report.info("query %d is planned anew, as epoch %d", number, epoch)
        record = Registered(
            query.table,
            one.text,
            one.owner,
            one.name,
            number,
            epoch,
            plain_query(query),
            HostKind.NETWORK.value,
            plain_rights(one.rights),
        )
        self._append(Append((record,)))

    # ---- what aggregators say

    def work(self) -> list[Coroutine[Any, Any, None]]:
        """Background task of the planner."""
        asking = [self._ask(one) for one in self.settings.aggregators]
        return [self._look_on(), *asking]

    async def _look_on(self) -> None:
        while True:
            await asyncio.sleep(self.settings.poll)
            counts = {text: self._around.notifications_of(text) for text in self.state.parts_at(HERE)}
            known = {text: count for text, count in counts.items() if count is not None}
            self.state.counted(HERE, self._around.generation, known)
            self._do(self.state.tick(microseconds()))

    async def _ask(self, one: KnownAggregator) -> None:
        """Ask one aggregator again and again, at whichever of its addresses answers."""
        headers = {} if one.token is None else {"authorization": f"Bearer {one.token}"}
        timeout = httpx.Timeout(max(self.settings.poll, 0.5))
        turn, counted = 0, 0
        async with httpx.AsyncClient(headers=headers, timeout=timeout) as http:
            while True:
                try:
                    urls = self._addresses(one)
                    # Counts may be long, and four times a window is often enough.
                    counts = microseconds() >= counted + self.settings.rules.window // 4
                    counts = counts and bool(self.state.parts_at(one.name))
                    offers = await _offers(http, urls[turn % len(urls)], counts)
                    heard = _heard(offers)
                    counted = microseconds() if counts else counted
                except Exception as error:
                    # Whatever one of them says or is: the others go on, and so does the node.
                    turn += 1
                    self._do(self.state.silent(one.name, str(error) or type(error).__name__, microseconds()))
                else:
                    self._do(self.state.heard(one.name, heard, microseconds()))
                await asyncio.sleep(self.settings.poll)

    def _addresses(self, one: KnownAggregator) -> tuple[str, ...]:
        urls = [node if "://" in node else self._found(node) for node in one.nodes]
        known = tuple(url for url in urls if url is not None)
        if not known:
            raise _Absent(f"node {one.nodes[0]} is not there yet")
        before, self._urls[one.name] = self._urls.get(one.name, known), known
        if before != known:
            self.state.moved(one.name)
        return known


class _Absent(Exception):
    """A node that is known by name only has not begun yet."""


async def _offers(http: httpx.AsyncClient, url: str, counts: bool) -> Offers:
    content = bytearray()
    params = {"notifications": "true" if counts else "false"}
    async with http.stream("GET", f"{url}/v1/offers", params=params) as answer:
        answer.raise_for_status()
        async for piece in answer.aiter_bytes():
            content += piece
            if len(content) > LARGEST_ANSWER:
                raise ProtocolError(f"{url} offers more than the {LARGEST_ANSWER} bytes that are read of an offer")
    return msgspec.json.decode(content, type=Offers)


def _heard(offers: Offers) -> AggregatorReport:
    """Validate an aggregator's report."""
    for text, count in offers.notifications.items():
        if not 0 <= count <= _MOST_COUNTED:
            raise ProtocolError(f"it has counted {count:.6g} messages of {text:.100}, which cannot be")
    return AggregatorReport(offers.generation, _held(offers), offers.doubt, offers.notifications)


def _held(offers: Offers) -> dict[Column, dict[Key, float]]:
    held: dict[Column, dict[Key, float]] = {}
    for some in offers.items:
        column = held.setdefault((some.table, some.column), {})
        if len(some.keys) != len(some.within):
            raise ProtocolError(f"it offers {len(some.keys)} items of {some.table} within {len(some.within)} bounds")
        for key, within in zip(some.keys, some.within, strict=True):
            if not all(isinstance(value, str | int | float) for value in key):
                raise ProtocolError(f"it offers {key!r:.100} of {some.table}, which is no key")
            if not (math.isfinite(within) and within >= 0):
                raise ProtocolError(f"it offers {key!r:.100} within {within}, which is no bound: 0 or more is")
            column[tuple(key)] = within
    return held
