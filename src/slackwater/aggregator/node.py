"""Aggregator process: a node whose rows come from upstreams and from polled or pulled sources.

    upstreams ─▶ links ──▶ writing ─▶ log ─▶ engine ─▶ sessions ─▶ sockets
    sources ──▶ pollers ──┘                    ▲
                    └──── doubt ───────────────┘

It is a node in all else: the same log, snapshots, requests and live connections.
"""

import asyncio
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import msgspec

from slackwater.aggregator.configuration import Plan, UpstreamPlan
from slackwater.aggregator.engine import AggregatorEngine
from slackwater.aggregator.poll.service import PolledSource
from slackwater.aggregator.pull.forecast import refused
from slackwater.aggregator.pull.pull_state import feed_of, item_of
from slackwater.aggregator.pull.service import Puller, make_scheduler
from slackwater.aggregator.upstream.connection import UpstreamLink
from slackwater.aggregator.upstream.places import UpstreamPlaces
from slackwater.aggregator.upstream.state import UpstreamState
from slackwater.client.live.connection import microseconds
from slackwater.core.clock import Clock
from slackwater.core.durable_file import replace_file
from slackwater.core.errors import NotSupported, StoreError
from slackwater.core.query import StandingQuery
from slackwater.core.schema import TableSchema
from slackwater.kinds.aggregate.kind import as_aggregate
from slackwater.server.node import Node, NodeSettings
from slackwater.server.upstreams import OfferedItems, Pulling, Upstream
from slackwater.sessions.events import Event, QueryRegistered, QueryUnregistered
from slackwater.sql import ExplainTree

_report = logging.getLogger("slackwater.aggregator")
TICK_SECONDS = 0.25


@dataclass(slots=True)
class _Standing:
    """The last report about an upstream or a source."""

    kind: str
    items: int
    why: str | None
    since: float
    lost: bool = False


FED_FILE = "fed.json"


def _fed_so_far(folder: Path) -> frozenset[str]:
    """The tables that have ever been filled from elsewhere, as far as they are still there."""
    try:
        return frozenset(msgspec.json.decode((folder / FED_FILE).read_bytes(), type=list[str]))
    except FileNotFoundError:
        return frozenset()
    except (OSError, msgspec.MsgspecError) as error:
        raise StoreError(f"{folder / FED_FILE} cannot be read: {error}") from error


def _keep_fed(folder: Path, tables: frozenset[str]) -> None:
    replace_file(folder / FED_FILE, msgspec.json.encode(sorted(tables)))


class AggregatorNode(Node):
    """A running aggregator; made by opening its folder."""

    engine: AggregatorEngine

    def __init__(self, settings: NodeSettings, plan: Plan, clock: Clock | None = None) -> None:
        self._links: dict[str, UpstreamLink] = {}
        self._pollers: dict[str, PolledSource] = {}
        self._seen: dict[str, int] = {}
        self._pullers: dict[str, Puller] = {}
        """By table."""
        self._helpers: list[asyncio.Task[None]] = []
        mirrored_items = plan.mirrored_items()
        former = _fed_so_far(settings.folder)
        mirrored_items.orphaned = former - mirrored_items.fed
        super().__init__(settings, clock, partial(AggregatorEngine, mirrored_items, self.doubt))
        # A table that was dropped meanwhile may be made anew, as one of our own.
        mirrored_items.orphaned &= frozenset(self.engine.tables)
        fed = mirrored_items.fed | mirrored_items.orphaned
        if fed != former:
            _keep_fed(settings.folder, fed)
        self._places = UpstreamPlaces(settings.folder)
        self._held = {(item.table, item.key) for upstream in plan.upstreams for item in upstream.items}
        for upstream in plan.upstreams:
            self._links[upstream.name] = UpstreamLink(
                self, upstream, self._state_of(upstream), self.beside, self._places
            )
        for source in plan.sources:
            self._pollers[source.part.name] = PolledSource(self, source)
        for table, pulls in plan.pulled().items():
            self._pullers[table] = Puller(self, pulls, make_scheduler, settings.folder / "pulls")
        now = time.time()
        self._standing = {
            name: _Standing("upstream", len(link.state.items), "", now) for name, link in self._links.items()
        } | {name: _Standing("source", 1, "", now) for name in self._pollers}
        for table, puller in self._pullers.items():
            self._standing[feed_of(table, "")] = _Standing("pulled table", len(puller.state.keys), "", now)
        for one, query in self.engine.kept():
            self._watch(one.number, query)
        for puller in self._pullers.values():
            puller.recall()

    def _state_of(self, plan: UpstreamPlan) -> UpstreamState:
        """Where an earlier life has left off."""
        tables = dict.fromkeys(item.table for item in plan.items)
        last = [self.engine.last_of(table, plan.name) for table in tables]
        stale = [(table, key) for table in tables for key in self.engine.keys(table)]
        return UpstreamState(
            plan.name,
            plan.items,
            (max(time for time, _ in last), max(sequence for _, sequence in last)),
            [row for row in stale if row not in self._held],
            patience=self.settings.rules.lease,
            history=self._places.of(plan.name),
        )

    # ---- services for links and pollers

    def table(self, name: str) -> TableSchema | None:
        """A table that is here."""
        return self.engine.tables.get(name)

    def doubt(self, feed: str) -> str | None:
        """Why an upstream or a source cannot be relied on."""
        if feed in self._links:
            return self._links[feed].state.doubt
        if feed in self._pollers:
            return self._pollers[feed].state.doubt(microseconds())
        item = item_of(feed)
        if item is not None and item[0] in self._pullers:
            return self._pullers[item[0]].doubt(item[1])
        return f"{feed} has not begun yet"

    def review(self) -> None:
        """Tell the sessions, and the report, if there is doubt where there was none, or the other way round."""
        seen = {table: puller.state.changes for table, puller in self._pullers.items()}
        changed, self._seen = seen != self._seen, seen
        for name, standing in self._standing.items():
            why = self.doubt(name)
            if why == standing.why:
                continue
            changed = True
            item = item_of(name)
            shown = name if item is None else item[0]
            if (why is None) is not (standing.why is None):
                standing.since = time.time()
                if why is None:
                    _report.info("%s %s can be relied on%s", standing.kind, shown, " again" if standing.lost else "")
                else:
                    standing.lost = True
                    _report.warning("lost: %s", why)
            standing.why = why
        if changed:
            for event in self.engine.reviewed():
                self.sessions.handle(event)

    def pulling(self, number: int) -> Pulling | None:
        """Pull statistics of a query."""
        told = (puller.pulling(number) for puller in self._pullers.values())
        return next((one for one in told if one is not None), None)

    async def foresee(self) -> None:
        """Refresh the forecasts of the registered queries, if that does not take long."""
        await asyncio.gather(*(puller.forecasts.refresh() for puller in self._pullers.values()))

    async def explain_forecast(self, query: StandingQuery) -> ExplainTree | None:
        """How often the items of a query would be pulled."""
        puller = self._pullers.get(query.table)
        asked = as_aggregate(query)
        if puller is None or asked is None:
            return None
        try:
            self.engine.mirrored_items.check(asked, puller.schema)
            keys = self.engine.mirrored_items.items(asked, puller.schema)
        except NotSupported as why:
            return refused(str(why))
        return await puller.forecasts.explained(asked, keys)

    # ---- running

    def upstreams(self) -> list[Upstream]:
        """Where the rows come from."""
        found = []
        for name, one in self._standing.items():
            why = self.doubt(name)
            state = "certain" if why is None else "doubtful"
            position = self._links[name].state.position if name in self._links else None
            item = item_of(name)
            if item is None:
                found.append(Upstream(name, one.kind, state, why or "", one.since, one.items, position))
                continue
            puller = self._pullers[item[0]]
            requests = sum(fetcher.requests for fetcher in puller.fetchers.values())
            found.append(Upstream(item[0], one.kind, state, why or "", one.since, one.items, None, requests))
        return found

    def offered(self) -> tuple[str | None, list[OfferedItems]]:
        """The mirrored items of upstreams, and the reason where one is in doubt."""
        doubts = [why for link in self._links.values() if (why := link.state.doubt) is not None]
        items = [
            OfferedItems(*column, [list(key) for key in held], [item.within for item in held.values()])
            for column, held in self.engine.mirrored_items.columns.items()
        ]
        return (doubts[0] if doubts else None), items

    def start(self, failed: Callable[[], None]) -> None:
        """Begin to work, on the running event loop."""
        super().start(failed)

        def over(task: asyncio.Task[None]) -> None:
            if not task.cancelled() and task.exception() is not None:
                self.failure = task.exception()
                _report.error("the aggregator cannot go on: %s", self.failure, exc_info=self.failure)
                failed()

        work = [self._tick()]
        work += [link.run() for link in self._links.values()]
        work += [poller.run() for poller in self._pollers.values()]
        work += [puller.run() for puller in self._pullers.values()]
        for coroutine in work:
            task = asyncio.get_running_loop().create_task(coroutine)
            task.add_done_callback(over)
            self._helpers.append(task)

    def _told(self, events: list[Event]) -> None:
        """Forward registrations and removals of queries to the pullers of their items."""
        super()._told(events)
        for event in events:
            if isinstance(event, QueryRegistered):
                self._watch(event.number, event.query)
            elif isinstance(event, QueryUnregistered):
                for puller in self._pullers.values():
                    puller.state.unregister(event.number)

    def _watch(self, number: int, query: StandingQuery) -> None:
        pulled = self.engine.mirrored_items.pulled.get(query.table)
        asked = as_aggregate(query)
        if pulled is not None and asked is not None:
            puller = self._pullers[asked.table]
            puller.state.register(number, asked, self.engine.mirrored_items.items(asked, puller.schema))
            puller.news.set()

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(TICK_SECONDS)
            for link in self._links.values():
                link.tick()
            self.review()

    async def stop(self) -> None:
        """Let go of the upstreams, then end as any node does."""
        for task in self._helpers:
            task.cancel()
        await asyncio.gather(*self._helpers, return_exceptions=True)
        await super().stop()
