"""Upstream connection: discovery of tables, subscriptions to items, and their values written to the log.

Everything that is decided is decided by `state`; here are the session of the client library, the log and the waiting.
"""

import asyncio
import logging
import random
from collections.abc import Callable, Sequence
from typing import Protocol

import msgspec
import pyarrow as pa

from slackwater.aggregator.base import RETRY, Item
from slackwater.aggregator.configuration import UpstreamPlan
from slackwater.aggregator.upstream.places import UpstreamPlaces
from slackwater.aggregator.upstream.state import UpstreamState, Write, WrittenRow
from slackwater.aggregator.upstream.tables import mirrored
from slackwater.client.address import Address, address
from slackwater.client.live.connection import LiveSession, ProgramEvent, microseconds
from slackwater.client.live.subscription import Subscription
from slackwater.client.rest import Rest
from slackwater.core.arrival import Arrival
from slackwater.core.arrow import EVENT_TIME, INSTANT, OPERATION, SEQUENCE, field
from slackwater.core.bound import Bound
from slackwater.core.clock import Clock
from slackwater.core.errors import SchemaError, SlackwaterError
from slackwater.core.extent import Categories, Extent, Interval
from slackwater.core.query import Aggregate, AggregateFunction
from slackwater.core.region import Box, Region, Side
from slackwater.core.schema import TableSchema
from slackwater.core.statement import Subscribe
from slackwater.core.types import DataType, Position, Scalar
from slackwater.core.update import Operation
from slackwater.dissemination.transports.websocket import WebSocketTransport
from slackwater.server.group_commit import Change, Result, Target
from slackwater.server.rest.bodies import TableBody
from slackwater.sql import Catalog, to_sql

_report = logging.getLogger("slackwater.aggregator")
AGAIN_SECONDS = 1.0
"""Between two tries at what an upstream refused."""
REFUSED_SECONDS = 5.0
"""The same where it would not have us at all."""
_PATIENCE = 2.0
_LONG = 3600.0


class Here(Protocol):
    """The node that a link belongs to, as the link needs it."""

    clock: Clock

    async def change(self, change: Change[Result], rows: int = 1) -> Result:
        """Make a change durable."""
        ...

    async def reached(self, position: Position, seconds: float) -> bool:
        """Wait until a position is applied."""
        ...

    def table(self, name: str) -> TableSchema | None:
        """A table that is here."""
        ...

    def review(self) -> None:
        """Check for doubt that began or ended."""
        ...


class _Tables(msgspec.Struct):
    tables: list["_Table"]


class _Table(TableBody, frozen=True, forbid_unknown_fields=False):
    """A table as a node lists it."""


class UpstreamLink:
    """One upstream. `found` resolves a node that is known by name only."""

    def __init__(
        self,
        here: Here,
        plan: UpstreamPlan,
        state: UpstreamState,
        found: Callable[[str], str | None],
        places: UpstreamPlaces,
    ) -> None:
        self.state = state
        self._places = places
        self._here = here
        self._plan = plan
        self._found = found
        self._news = asyncio.Event()
        self._session: LiveSession | None = None
        self._subscriptions: dict[int, Subscription] = {}
        self._statements: dict[Item, str] = {}
        self._refused_at: int | None = None
        self._complained = ""
        self._failures = 0
        """Writes in a row that the log did not take."""
        self._lane: str | None = None
        """The host that keeps the items upstream; None: the one that keeps most there."""

    async def run(self) -> None:
        """Mirror the upstream, until cancelled."""
        try:
            addresses = await self._addresses()
            await self._prepare(addresses)
            items = self.state.items
            while True:
                lane = self._lane
                why = await self._listen(addresses, items)
                if self._lane != lane:
                    items = tuple(self.state.lost(why))
                    continue
                # It would not have us, for a reason that only its owner can do away with: ask now and then.
                self._complain(why)
                items = tuple(self.state.lost(why))
                self._here.review()
                await asyncio.sleep(REFUSED_SECONDS)
        finally:
            await self._close()

    async def _listen(self, addresses: Sequence[Address], items: Sequence[Item]) -> str:
        """Mirror the upstream for one session; return the reason why no node serves it any more."""
        lane, after = self._lane, self.state.after
        session = self._session = LiveSession(
            addresses,
            WebSocketTransport(self._plan.token),
            random.random,
            lane=lane,
            # All items of an upstream are as of one position, so they must be kept by one host there.
            elsewhere=self._other_lane if lane is None else None,
            after=after,
            heard=self._heard,
        )
        for item in items:
            self._subscribe(session, item)
        while session.over is None and self._lane == lane:
            await self._news.wait()
            self._news.clear()
            await self._write()
        why = session.over or f"its items are kept by the host {self._lane!r}"
        await self._close()
        return why

    def _other_lane(self, subscription: Subscription, host: str) -> None:
        self._lane = host
        self._news.set()

    async def _close(self) -> None:
        session, self._session = self._session, None
        self._subscriptions.clear()
        if session is not None:
            await session.close()

    def tick(self) -> None:
        """Time has passed."""
        self.state.tick(microseconds())
        if self.state.refused and self._session is not None and self._session.over is None:
            self._again(self._session)
        self._news.set()

    # Before it begins.

    async def _addresses(self) -> tuple[Address, ...]:
        """Where the nodes are; one that is beside this one may have to start first."""
        while True:
            urls = [node if "://" in node else self._found(node) for node in self._plan.nodes]
            known = [url for url in urls if url is not None]
            if len(known) == len(urls):
                return tuple(address(url) for url in known)
            self._complain(f"node {self._plan.nodes[urls.index(None)]} is not there yet")
            await asyncio.sleep(0.1)

    async def _prepare(self, addresses: Sequence[Address]) -> None:
        """Make the tables here that are held; wait for the upstream to have them."""
        failures = 0
        while True:
            rest = Rest(addresses, self._plan.token, _PATIENCE, random.random)
            try:
                body = await rest.request("GET", "/v1/tables")
                there = {one.name: one.schema() for one in msgspec.json.decode(body, type=_Tables).tables}
                await self._define(there)
                return
            except (SlackwaterError, msgspec.MsgspecError) as error:
                self._complain(str(error))
                failures += 1
                await asyncio.sleep(RETRY.delay(failures, random.random))
            finally:
                await rest.close()

    async def _define(self, there: dict[str, TableSchema]) -> None:
        for name in dict.fromkeys(item.table for item in self.state.items):
            if name not in there:
                raise SchemaError(f"it has no table {name}; it has {', '.join(sorted(there)) or 'none'}")
            items = [item for item in self.state.items if item.table == name]
            schema = mirrored(there[name], items, self._here.table(name))

            def define(target: Target, schema: TableSchema = schema) -> Position:
                return target.intake.define(schema)

            await self._here.reached(await self._here.change(define), _LONG)
            for item in items:
                self._statements[item] = statement(item, there[name])

    def _complain(self, why: str) -> None:
        """Report an error once, and not again until it changes."""
        if why != self._complained:
            self._complained = why
            _report.warning("upstream %s: %s", self._plan.name, why)

    # Events of the upstream.

    def _subscribe(self, session: LiveSession, item: Item) -> None:
        subscription = session.subscribe(self._statements[item])
        ref = subscription.ref
        self._subscriptions[ref] = subscription
        self.state.wanted(ref, item)

    def _heard(self, events: Sequence[ProgramEvent]) -> None:
        if self._session is not None:
            self.state.heard(self._session.state, events)
            self._here.review()
            self._news.set()

    def _again(self, session: LiveSession) -> None:
        """Ask once more for what was refused: a table may be there now, or another bound."""
        now = microseconds()
        if self._refused_at is None or now - self._refused_at < AGAIN_SECONDS * 1_000_000:
            self._refused_at = self._refused_at or now
            return
        self._refused_at = None
        for ref, why in list(self.state.refused.items()):
            self._complain(why)
            item = self.state.unwanted(ref)
            self._subscriptions.pop(ref)
            session.unsubscribe(ref)
            self._subscribe(session, item)

    async def _write(self) -> None:
        write = self.state.next_write(microseconds(), self._here.clock.now())
        if write is None:
            self._here.review()
            return
        try:
            self._places.keep(self.state.name, self.state.history)
            await self._store(write)
        except SlackwaterError as error:
            self._complain(str(error))
            self.state.failed(write)
            self._failures += 1
            await asyncio.sleep(RETRY.delay(self._failures, random.random))
        else:
            self.state.wrote(write)
            self._failures = 0
        self._here.review()
        self._news.set()

    async def _store(self, write: Write) -> None:
        arrivals = list(self._arrivals(write))
        receipt = await self._here.change(lambda target: target.intake.take(arrivals), len(write.rows))
        if receipt.accepted != len(write.rows):
            raise SlackwaterError(
                f"of {len(write.rows)} rows {receipt.quarantined} were refused here and {receipt.repeats} were known"
            )
        while not await self._here.reached(receipt.position, _LONG):
            pass

    def _arrivals(self, write: Write) -> list[Arrival]:
        made = []
        sequence = write.first
        for table in dict.fromkeys(row.table for row in write.rows):
            rows = [row for row in write.rows if row.table == table]
            schema = self._here.table(table)
            assert schema is not None
            batch = batch_of(schema, rows, sequence, write.time)
            sequence += len(rows)
            made.append(Arrival(table, self._plan.name, batch, f"upstream {self._plan.name}"))
        return made


def statement(item: Item, table: TableSchema) -> str:
    """The standing query that holds an item."""
    sides = [Side(name, _only(part, table.column(name).type)) for name, part in zip(table.key, item.key, strict=True)]
    region = Region((Box.of(*sides),))
    query = Aggregate(table.name, AggregateFunction.SUM, item.column, Bound(item.within), region)
    return to_sql(Subscribe(query), Catalog((table,)))


def _only(value: Scalar, kind: DataType) -> Extent:
    if kind in (DataType.TEXT, DataType.BOOLEAN):
        return Categories(frozenset({value}))
    return Interval(value, value)


def batch_of(schema: TableSchema, rows: Sequence[WrittenRow], first: int, time: int) -> pa.RecordBatch:
    """Rows as columns, each with its number, its time and its operation."""
    columns = []
    for place, name in enumerate(schema.key):
        kind = field(schema.column(name)).type
        stored = pa.int64() if pa.types.is_timestamp(kind) else kind
        columns.append((name, pa.array([row.key[place] for row in rows], stored).cast(kind)))
    columns += [
        (column.name, pa.array([row.values.get(column.name) for row in rows], pa.float64())) for column in schema.values
    ]
    operations = [int(Operation.UPSERT if row.there else Operation.DELETE) for row in rows]
    columns += [
        (OPERATION, pa.array(operations, pa.int8())),
        (EVENT_TIME, pa.array([time] * len(rows), pa.int64()).cast(INSTANT)),
        (SEQUENCE, pa.array(range(first, first + len(rows)), pa.int64())),
    ]
    return pa.RecordBatch.from_arrays([array for _, array in columns], names=[name for name, _ in columns])
