"""Node: one process that runs standing queries from a log and serves them; no JVM.

    requests ─▶ writing ─▶ log ─▶ following ─▶ engine ─▶ sessions ─▶ sockets
                                      │
                                      └─▶ snapshots, the store

Opening restores the latest sound snapshot and replays the log from there. After that everything that changes anything
goes into the log first and takes effect when it is read back from there. A node that only follows a log which another
process writes differs in one thing: its log may be replaced under it. If the log lacks what was applied, the node ends
with `HistoryReplaced` and is to be opened anew. Sockets, engine and sessions share the event loop and need no locks;
the disk has threads of its own.
"""

import asyncio
import gc
import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from msgspec import UnsetType

from slackwater.admission import Limits
from slackwater.core.arrival import Arrival, RequestKey
from slackwater.core.clock import Clock
from slackwater.core.errors import HistoryReplaced, LogAway, LogError, SlackwaterError
from slackwater.core.hosts import HostKind, Placement
from slackwater.core.query import StandingQuery
from slackwater.core.rights import EVERY_ROW, Grant
from slackwater.core.system_errors import system_error
from slackwater.core.types import Position
from slackwater.deployment.endpoint_file import read_state
from slackwater.dissemination.transports import TransportLimits
from slackwater.hosting.log_clock import LogClock
from slackwater.hosting.snapshots import SnapshotFolder
from slackwater.hosting.step import Registration
from slackwater.intake import MEMORY_FILE, IntakeReceipt, RowsRequest
from slackwater.log import Registered, Unregistered, open_log
from slackwater.log.address import on_a_bus, shown
from slackwater.server.channel_host import ChannelHost, split_address
from slackwater.server.collector import uncollected
from slackwater.server.group_commit import Change, Result, RowsChange, Target, WriteQueue
from slackwater.server.lanes.base import Lane
from slackwater.server.lanes.registry import LANES
from slackwater.server.log_follower import LogFollower
from slackwater.server.node_record import NodeRecord
from slackwater.server.planners.base import NodePlanner
from slackwater.server.planners.labels import LabellingRules
from slackwater.server.planners.network.configuration import NetworkSettings
from slackwater.server.planners.registry import PLANNERS
from slackwater.server.rates import Rates
from slackwater.server.readiness import Readiness
from slackwater.server.rights import NodeRights
from slackwater.server.session_host import Sessions
from slackwater.server.snapshot_schedule import SnapshotSchedule
from slackwater.server.store import STORE_FILE, Store
from slackwater.server.upstreams import OfferedItems, Offers, Pulling, Upstream
from slackwater.sessions.engine import NodeEngine
from slackwater.sessions.events import Append, Event
from slackwater.sessions.ingest_streams import IngestTotals
from slackwater.sessions.limits import ServerLimits
from slackwater.sessions.registrar import Registrar
from slackwater.sessions.router import Router
from slackwater.sessions.rules import SessionRules
from slackwater.sql import ExplainTree
from slackwater.wallclock import WallClock

_report = logging.getLogger("slackwater.server")

SNAPSHOT_EVERY = 1_000_000
UPKEEP_SECONDS = 1.0
LAST_POSITION = Position(2**63 - 1)
MOST_APPENDED = 1_024
"""Registrations of sessions that go to the log in one change."""
SETTLED_QUERIES = 1_000
"""So many more queries make the collector of garbage look at a lot that stays: then it is told so."""


@dataclass(frozen=True, slots=True)
class NodeSettings:
    """Settings of a node: folders, log, hosts and rules.

    `follow` is a log that another process writes: a folder, or a stream on a bus (`nats://host:4222/name`). `stream`
    is one on a bus that this node writes, instead of the folder `log`.
    """

    folder: Path
    name: str = "node"
    follow: Path | str | None = None
    snapshot_every: int = SNAPSHOT_EVERY
    rules: SessionRules = field(default_factory=SessionRules)
    limits: ServerLimits = field(default_factory=ServerLimits)
    stream: str | None = None
    spark: Path | None = None
    """Folder of a Spark host's publication log."""
    placement: Placement = field(default_factory=Placement)
    labelling: LabellingRules = field(default_factory=LabellingRules)
    network: NetworkSettings | None = None
    """The aggregators over which sums are planned."""
    channels: str | None = None
    """Where facts are published for many subscribers at once: `nats://host:4222/name`, or `memory` in one process."""
    admission: Limits = field(default_factory=Limits)
    """Limits of the rows that are admitted."""

    def __post_init__(self) -> None:
        if self.channels is not None:
            split_address(self.channels)
        if HostKind.SPARK in self.placement.kinds - self.hosts:
            raise SlackwaterError("queries are to be kept by Spark, but no Spark host was named")
        if HostKind.NETWORK in self.hosts and self.follow is not None:
            raise SlackwaterError(
                "a node that follows a log does not plan: name the network to the node that writes it"
            )

    @property
    def hosts(self) -> frozenset[HostKind]:
        """The hosts that the node is set up for."""
        settings = {HostKind.NODE: self.folder, HostKind.SPARK: self.spark, HostKind.NETWORK: self.network}
        return frozenset(host for host, setting in settings.items() if setting is not None)

    @property
    def log(self) -> Path | str:
        """Where the log is."""
        return self.follow or self.stream or self.folder / "log"

    @property
    def memory(self) -> Path:
        """What the intake remembers: beside a log on this machine, in the node's folder otherwise."""
        return (self.folder if isinstance(self.log, str) else self.log) / MEMORY_FILE


AnyPlanner = TypeVar("AnyPlanner", bound=NodePlanner)


class Node:
    """A running node; made by opening its folder, which takes as long as the replay takes."""

    def __init__(
        self,
        settings: NodeSettings,
        clock: Clock | None = None,
        make_engine: Callable[[], NodeEngine] = NodeEngine,
    ) -> None:
        self.settings = settings
        self.clock = clock or WallClock()
        self._make_engine = make_engine
        self.engine = make_engine()
        self.snapshots = SnapshotFolder(settings.folder / "snapshots")
        self.schedule = SnapshotSchedule(self, Position(0))
        self.rates = Rates()
        self.ingest_totals = IngestTotals()
        self.lanes: dict[HostKind, Lane] = {}
        self.log = open_log(settings.log, read_only=settings.follow is not None)
        try:
            self.store = Store(settings.folder / STORE_FILE)
            try:
                with uncollected():
                    former = self._restore()
                self.follower = LogFollower(
                    self.log,
                    shown(settings.log),
                    self.engine,
                    self.lanes,
                    settings.rules.lease,
                    writable=self.writable,
                    afar=on_a_bus(settings.log),
                )
                self.follower.told = self._told
                with uncollected():
                    self._replay()
                # What joins need may take longer than a lease, above all to be compiled: here no client waits yet.
                self.engine.settle()
                for query in self.engine.host.queries.examples():
                    self.engine.host.warm_up(query)
                self.record = NodeRecord(self.store, self.clock)
                self.generation = self.record.begin(former, *self._registrations())
            except BaseException:
                self.store.close()
                raise
        except BaseException:
            self.log.close()
            raise
        self.identity = (settings.name, self.generation)
        self.router = Router(lambda: self.engine.registry, settings.placement)
        self.registrar = Registrar(self.engine, settings.limits, self.router)
        limits = TransportLimits(message=settings.limits.unsent, unsent=settings.limits.unsent)
        self.channels = None if settings.channels is None else ChannelHost(settings.channels, limits)
        self.rights = NodeRights(self)
        for make_lane in LANES:
            lane = make_lane(self)
            if lane is not None:
                self.lanes[lane.host] = lane
        self.router.lanes = frozenset(self.lanes)
        self.planners = [one for make in PLANNERS if (one := make(self)) is not None]
        self.failure: BaseException | None = None
        self.leaving: list[Callable[[], None]] = []
        """Called when the node begins to shut down."""
        self._writing: WriteQueue | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._wanted: list[Registered | Unregistered] = []
        """Registrations that wait until those before them are in the log."""
        self._appending: set[asyncio.Task[None]] = set()
        self._reached: list[tuple[Position, asyncio.Future[None]]] = []
        self._settled = self._counted = 0
        self.readiness = Readiness(self)

    # ---- opening

    def _restore(self) -> int:
        """Restore the latest sound snapshot of this history; returns the generation that wrote it."""
        self.engine.lineage = lineage = self.log.lineage
        for snapshot in self.snapshots.read(Position(0), LAST_POSITION):
            if not lineage.holds(snapshot.place, self.log.end):
                self._put_aside(snapshot.position)
                continue
            if snapshot.position < self.log.start:
                break
            engine = self._make_engine()
            engine.lineage = lineage
            try:
                generation = engine.restore(snapshot.state)
            except (SlackwaterError, ValueError, KeyError, TypeError) as error:
                _report.warning("the snapshot at %d cannot be used: %s", snapshot.position, error)
                continue
            if engine.position != snapshot.position:
                _report.warning("the snapshot at %d is of position %d", snapshot.position, engine.position)
                continue
            self.engine, self.schedule.position = engine, snapshot.position
            return generation
        if self.log.start > 0:
            raise LogError(
                f"the log at {shown(self.settings.log)} begins at position {self.log.start} and there is no sound "
                f"snapshot from then on in {self.snapshots.folder}; put a snapshot back from a copy"
            )
        return 0

    def _put_aside(self, position: Position) -> None:
        """Put a snapshot of another history aside: later ones of this history would be taken for older, and dropped."""
        aside = self.snapshots.put_aside(position)
        _report.warning(
            "the snapshot at %d is of another history than the log, which was replaced or lost its end; it is kept as "
            "%s and not used",
            position,
            aside,
        )

    def _replay(self) -> None:
        began, start = time.monotonic(), self.engine.position
        for _ in self.engine.events(self.log.read(start)):
            pass
        if not self.writable and self.log.lineage != self.engine.lineage:
            raise HistoryReplaced(f"the log at {shown(self.settings.log)} was opened or replaced while it was read")
        self.engine.forget_counts()
        if self.engine.position > start:
            _report.info("replayed positions %d to %d in %.1f s", start, self.engine.position, time.monotonic() - began)

    # ---- running

    @property
    def writable(self) -> bool:
        """Whether this node writes its log, or follows one."""
        return self.settings.follow is None

    @property
    def sessions(self) -> Sessions:
        """The sessions of the queries that the node keeps itself."""
        return self.lanes[HostKind.NODE].sessions

    def planner(self, kind: type[AnyPlanner]) -> AnyPlanner | None:
        """The planner of this class, if the node has one."""
        return next((one for one in self.planners if isinstance(one, kind)), None)

    @property
    def _afar(self) -> bool:
        return on_a_bus(self.settings.log)

    @property
    def ready(self) -> bool:
        """Whether requests can be answered; `readiness` says whether all of them can."""
        return bool(self._tasks) and self.failure is None

    def write_trouble(self, seconds: float) -> str | None:
        """Why the latest append failed, for so long after it where nothing else was appended since."""
        writing = self._writing
        if writing is None or writing.trouble is None or time.monotonic() - writing.failed_at > seconds:
            return None
        return writing.trouble

    def log_end(self) -> Position:
        """End of the log, as it was seen last where asking takes time."""
        return self.follower.end

    @property
    def appends(self) -> int:
        """How often something was appended to the log."""
        return 0 if self._writing is None else self._writing.groups

    @property
    def changes(self) -> int:
        """How many requests that was for."""
        return 0 if self._writing is None else self._writing.changes

    def pulling(self, number: int) -> Pulling | None:
        """What is pulled for a query; a plain node pulls nothing."""
        return None

    async def foresee(self) -> None:
        """Have what `pulling` foretells of the queries that stand brought up to date, if that does not take long."""

    async def explain_forecast(self, query: StandingQuery) -> ExplainTree | None:
        """Predicted cost of a query, as a part of an explanation; None where there is no prediction."""
        return None

    def upstreams(self) -> list[Upstream]:
        """Where the rows of this node come from, if not from those who send them."""
        return []

    def beside(self, name: str) -> str | None:
        """Where a node listens whose folder lies beside this one's."""
        listening = read_state(self.settings.folder.resolve().parent / name)
        return None if listening is None else listening.url

    def offers(self, counts: bool) -> Offers:
        """What can be planned over this node, and the number of notifications of each query of this node."""
        doubt, items = self.offered()
        engine = self.engine
        kept = [one for one in engine.registrations.values() if engine.keeps(one)] if counts else []
        said = {one.text: engine.notified[one.number] for one in kept}
        return Offers(self.settings.name, self.generation, doubt, items, said)

    def offered(self) -> tuple[str | None, list[OfferedItems]]:
        """The items that are held within bounds, and why they cannot be vouched for: a plain node holds none."""
        return None, []

    def notifications_of(self, text: str) -> int | None:
        """Number of notifications of a query of this node; None where it is not of this node."""
        kept = self.sessions.state.subscriptions.queries.with_text(text)
        return None if kept is None else self.engine.notified[kept.number]

    def start(self, failed: Callable[[], None]) -> None:
        """Begin to work, on the running event loop; `failed` is called if the node cannot go on."""
        self.readiness.look_at_disk()
        work = [self.follower.run(), self.schedule.run(), self._keep_up()]
        work += self.readiness.work()
        parts: list[Lane | NodePlanner] = [*self.lanes.values(), *self.planners]
        with uncollected():
            for part in parts:
                part.start()
        for part in parts:
            work += part.work()
        if self.writable:
            pending, memory = self.settings.limits.pending_rows, self.settings.memory
            log_clock = LogClock(self.engine.host.time)
            more, admission = self.follower.more.set, self.settings.admission
            self._writing = WriteQueue(self.log, self.clock, memory, pending, more, log_clock, admission)
            self._writing.committed = self.follower.hand
            self._writing.keep_time(self.engine.tick_periods)
            if self.registrar.outdated():
                work.append(self.rights.begin())
            work.append(self._writing.run())

        def over(task: asyncio.Task[None]) -> None:
            if not task.cancelled() and task.exception() is not None:
                self.failure = task.exception()
                if isinstance(self.failure, HistoryReplaced):
                    _report.warning("the node begins anew: %s", self.failure)
                else:
                    known = isinstance(self.failure, SlackwaterError)
                    exc_info = None if known else self.failure
                    _report.error("the node cannot go on: %s", self.failure, exc_info=exc_info)
                failed()

        for coroutine in work:
            task = asyncio.get_running_loop().create_task(coroutine)
            task.add_done_callback(over)
            self._tasks.append(task)

    async def stop(self) -> None:
        """Write what waits, take a snapshot, close everything."""
        self.farewell()
        if self._writing is not None and self._tasks:
            await self._writing.close()
            await asyncio.wait([self._tasks[-1]])
            self._writing.finish()
        for task in [*self._tasks, *self._appending]:
            task.cancel()
        await asyncio.gather(*self._tasks, *self._appending, return_exceptions=True)
        if self.channels is not None:
            await self.channels.close()
        if self.failure is None:
            try:
                self._catch_up()
            except (SlackwaterError, OSError) as error:
                if not isinstance(error, LogAway) and system_error(error) is None:
                    raise
                _report.warning("the last of the log is not in the snapshot: %s", error)
            self.schedule.take()
            self.record.end(*self._registrations())
        self.close()

    def farewell(self) -> None:
        """End all sessions in all lanes, because the node shuts down."""
        for leave in self.leaving:
            leave()
        for lane in self.lanes.values():
            lane.sessions.farewell_to_all("the node is going down; come again")

    def close(self) -> None:
        """Let go of the files."""
        self._tasks = []
        gc.unfreeze()
        self.store.close()
        self.log.close()

    async def change(self, change: Change[Result], rows: int = 1) -> Result:
        """Make a change durable."""
        if self._writing is None:
            raise LogError("this node follows a log that another process writes: it takes no changes; ask the other")
        try:
            return await self._writing.submit(change, rows)
        except OSError as error:
            raise LogError(f"the log could not be written: {error}") from error

    async def ingest(self, arrivals: Sequence[Arrival], key: RequestKey | None, rows: int) -> IntakeReceipt:
        """Take rows and make them durable, together with those of others that wait."""
        return await self.change(RowsChange(RowsRequest(arrivals, key)), rows)

    # ---- progress

    async def reached(self, position: Position, seconds: float) -> bool:
        """Wait until everything before a position was applied; False if that takes too long."""
        if self.engine.position >= position:
            return True
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._reached.append((position, future))
        try:
            async with asyncio.timeout(seconds):
                await future
        except TimeoutError:
            return self.engine.position >= position
        finally:
            self._reached = [(at, waiting) for at, waiting in self._reached if waiting is not future]
        return True

    # ---- following

    async def log_span(self) -> tuple[Position, Position]:
        """Where the log starts and ends."""
        if self._afar and not self.writable:
            return await asyncio.to_thread(lambda: (self.log.start, self.log.end))
        return self.log.start, self.log.end

    def _catch_up(self) -> None:
        for events in self.engine.events(self.log.read(self.engine.position)):
            self._told(events)

    def _told(self, events: list[Event]) -> None:
        for lane in self.lanes.values():
            lane.told(events)
        for planner in self.planners:
            planner.followed()
        if self._writing is not None:
            self._writing.keep_time(self.engine.tick_periods)
        position = self.engine.position
        for at, waiting in self._reached:
            if at <= position and not waiting.done():
                waiting.set_result(None)

    def append(self, instruction: Append) -> None:
        """The sessions want registrations in the log; they ask again if it fails, so failing is only noted.

        What comes while others are on their way to the disk goes together after them.
        """
        if not self.writable:
            return
        self._wanted += instruction.records
        if not self._appending:
            task = asyncio.get_running_loop().create_task(self._append_wanted())
            self._appending.add(task)
            task.add_done_callback(self._appending.discard)

    async def _append_wanted(self) -> None:
        while self._wanted:
            records, self._wanted = self._wanted[:MOST_APPENDED], self._wanted[MOST_APPENDED:]

            def change(target: Target, records: list[Registered | Unregistered] = records) -> None:
                tables = target.log.catalog()
                kept = [one for one in records if tables.find(one.table) is not None and not self._in_the_log(one)]
                target.log.append(kept)

            try:
                await self.change(change, len(records))
            except SlackwaterError as error:
                _report.warning("registrations could not be appended: %s", error)

    def _in_the_log(self, record: Registered | Unregistered) -> bool:
        """True if the log already has this registration, and only its host has not applied it yet."""
        if isinstance(record, Unregistered):
            return record.number not in self.engine.registrations
        if record.number is not None:
            known = self.engine.registrations.get(record.number)
            return known is None or known.epoch >= record.epoch
        host = HostKind(record.host)
        rights = EVERY_ROW if isinstance(record.rights, UnsetType) else Grant.read(record.rights)
        return host is not HostKind.NODE and self.engine.registry.has(host, record.text, record.name, rights)

    # ---- upkeep

    async def _keep_up(self) -> None:
        """Once a second: the view of registrations, revoked tokens, rates."""
        while True:
            await asyncio.sleep(UPKEEP_SECONDS)
            try:
                await self._upkeep()
            except (SlackwaterError, OSError, RuntimeError) as error:
                # No descriptor, no space, no thread to be had: what is served does not depend on upkeep.
                _report.error("upkeep failed, and is tried again: %s", error)

    async def _upkeep(self) -> None:
        sent = sum(lane.sessions.messages["sent"] for lane in self.lanes.values())
        self.rates.note(rows=self.engine.applied_rows, sent=sent)
        self._settle_memory()
        if self.engine.changed or self.record.behind:
            everything, _ = self._registrations() if self.record.behind else ((), None)
            changes = self._registration_changes()
            await asyncio.to_thread(self.record.change, *changes, everything)
        self.store.refresh()
        self._look_at_tokens()

    def _look_at_tokens(self) -> None:
        for sessions in (lane.sessions for lane in self.lanes.values()):
            for token in sessions.tokens():
                if not self.store.in_force(token):
                    sessions.farewell_to_token(token, "the token was revoked")
            if self.store.any_token():
                sessions.farewell_to_strangers("there are tokens now, and this connection came without one")

    def _settle_memory(self) -> None:
        """Once many queries have come and no more are coming, have the collector pass over them from then on.

        A full collection stops everything for as long as it takes to look at every query, half a second for 10 000,
        and would come back every few seconds.
        """
        count, self._counted = self._counted, len(self.engine.registrations)
        if count == self._counted and count >= self._settled + SETTLED_QUERIES:
            self._settled = count
            gc.collect()
            gc.freeze()

    @property
    def snapshot_position(self) -> Position:
        """Position of the latest snapshot."""
        return self.schedule.position

    def _registrations(self) -> tuple[tuple[Registration, ...], Position]:
        return tuple(self.engine.registrations.values()), self.engine.position

    def _registration_changes(self) -> tuple[list[Registration], list[int], Position]:
        numbers, self.engine.changed = self.engine.changed, set()
        present = self.engine.registrations
        changed = [present[number] for number in numbers if number in present]
        return changed, [number for number in numbers if number not in present], self.engine.position
