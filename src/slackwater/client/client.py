"""Asynchronous client: queries, rows and statements by request, subscriptions over one live connection."""

import asyncio
import random
import secrets
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Literal, Self, TypeAlias
from urllib.parse import quote

import msgspec

from slackwater.client.address import Address, addresses
from slackwater.client.answers import (
    Answer,
    AnswerBody,
    Explanation,
    HealthBody,
    Receipt,
    ReceiptBody,
    Standing,
    StandingBody,
    TableColumns,
)
from slackwater.client.bus import BusDialler
from slackwater.client.cache.settings import Cache
from slackwater.client.failures import Refused
from slackwater.client.ingest.row_forms import RowsLike, exports_arrow, records
from slackwater.client.ingest.service import IngestStream, RowRequest, StreamOptions
from slackwater.client.live.connection import Dialler, LiveSession, microseconds
from slackwater.client.live.subscription import Subscription
from slackwater.client.planned.service import LANE as PLANNED
from slackwater.client.planned.service import Network
from slackwater.client.rest import Rest, decoded
from slackwater.client.row_batches import arrow_batches, batches
from slackwater.core.errors import MissingPart, SlackwaterError
from slackwater.dissemination.delivery.channel import CHANNEL
from slackwater.dissemination.messages import UNICAST
from slackwater.dissemination.transports.base import Channels
from slackwater.dissemination.transports.open_channels import MEMORY, open_channels
from slackwater.dissemination.transports.websocket import WebSocketTransport

if TYPE_CHECKING:
    # Needs Arrow and the evaluator, which the base install does without.
    from slackwater.client.cache.service import CacheService

_LINES = {"content-type": "application/x-ndjson"}
_ARROW = {"content-type": "application/vnd.apache.arrow.stream"}
MOST_UNACKNOWLEDGED = 65_536
"""Rows of a stream that may be on their way before `send` waits."""
LONGEST_KEY = 112
"""Characters of an idempotency key: a server takes 128, and the number of the request stands behind it."""


_Body: TypeAlias = tuple[bytes, int, dict[str, str]]
"""The body of a request with rows, how many they are, and its headers."""


class Client:
    """A connection to one server, or to whichever of several answers. Made by `slackwater.connect`."""

    def __init__(
        self,
        urls: str | Iterable[str],
        *,
        token: str | None = None,
        wait: float = 5.0,
        patience: float = 30.0,
        bus: str | None = None,
        transport: Dialler | None = None,
        cache: Cache | None = None,
    ) -> None:
        self._addresses: tuple[Address, ...] = addresses(urls)
        self._token = token
        self._wait = wait
        self._patience = patience
        self._bus = None if bus is None else BusDialler(bus, token)
        self._transport = transport
        self._rest: Rest | None = None
        self._sessions: dict[str | None, LiveSession] = {}
        """One for each lane that was needed so far; None is the one that is asked first."""
        self._network: Network | None = None
        self._name = secrets.token_hex(8)
        self._streams = 0
        self._numbers: dict[str, int] = {}
        self._numbering = asyncio.Lock()
        self._cache = cache
        self._service: CacheService | None = None

    async def __aenter__(self) -> Self:
        if self._rest is not None:
            raise SlackwaterError("this client was connected before: make another one with slackwater.connect")
        jitter = random.random
        self._rest = Rest(self._addresses, self._token, self._patience, jitter)
        if self._cache is None:
            self._lane(None)
        else:
            self._service = self._with_cache(self._cache)
        if self._transport is None:
            try:
                # Not whether it is ready: a server that only reads, as on a full disk, can be asked.
                decoded(await self._rest.request("GET", "/v1/health", patience=self._wait), HealthBody)
            except BaseException:
                await self.close()
                raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """End all subscriptions and close all connections."""
        if self._network is not None:
            await self._network.close()
        for session in self._sessions.values():
            await session.close()
        if self._rest is not None:
            await self._rest.close()

    # Standing queries.

    def subscribe(self, sql: str, *, delivery: Literal["unicast", "channel"] = "unicast") -> Subscription:
        """Want a standing query: `SUBSCRIBE SELECT …`, or the name of one that is registered.

        `delivery="channel"`: take changes from a channel that the server publishes to once for all subscribers, where
        it has channels; `Subscription.delivery` says how they are delivered.
        """
        if not self._sessions:
            raise _not_connected()
        if delivery not in (UNICAST, CHANNEL):
            raise ValueError(f"delivery is {UNICAST!r} or {CHANNEL!r}, not {delivery!r}")
        return self._lane(None).subscribe(sql, delivery)

    def _lane(self, host: str | None) -> LiveSession:
        """The session for the queries of one host: each host stands at its own position."""
        session = self._sessions.get(host)
        if session is None:
            session = self._sessions[host] = LiveSession(
                self._addresses,
                self._carrier(),
                random.random,
                lane=host,
                elsewhere=self._elsewhere,
                find_channels=self._find_channels,
            )
            session.moved = self._saw
        return session

    def _find_channels(self, address: str) -> Channels:
        """The channels of a server; the way to its bus is this client's own, where it has one."""
        return open_channels(address if self._bus is None or address == MEMORY else self._bus.servers)

    def _saw(self, position: int, incarnation: int) -> None:
        """Something as of this position of the node's log was delivered: the cache answers as of no earlier one."""
        if self._service is not None:
            self._service.saw(position, incarnation)

    def _with_cache(self, cache: Cache) -> "CacheService":
        """The session of the node's lane, with a cache; it is the first to be asked for everything."""
        try:
            from slackwater.client.cache.service import CacheService, TablesBody
        except ImportError as error:
            raise MissingPart('a cache needs pyarrow and duckdb: pip install "slackwater[cache]"') from error
        from slackwater.client.cache.state import CacheState

        session = self._sessions[None] = self._sessions["node"] = LiveSession(
            self._addresses,
            self._carrier(),
            random.random,
            lane="node",
            elsewhere=self._elsewhere,
            make_state=CacheState,
            find_channels=self._find_channels,
        )

        async def tables() -> TablesBody:
            return decoded(await self._requests.request("GET", "/v1/tables"), TablesBody)

        service = CacheService(cache, session, tables, self._patience, microseconds)
        session.replied = service.replied
        return service

    @property
    def cache(self) -> "CacheService":
        """The cache: `.map(table)`, `.counts`."""
        if self._service is None:
            raise SlackwaterError("there is no cache: slackwater.connect(url, cache=slackwater.Cache())")
        return self._service

    def _carrier(self) -> Dialler:
        return self._transport or self._bus or WebSocketTransport(self._token)

    def _elsewhere(self, subscription: Subscription, host: str) -> None:
        if host == PLANNED:
            if self._network is None:
                # Aggregators are reached at their addresses, whatever transport the server uses.
                direct = self._transport or WebSocketTransport(self._token)
                carriers = (self._carrier(), direct)
                self._network = Network(self._addresses, carriers, self._requests, self._elsewhere)
                self._network.saw = self._saw
            self._network.adopt(subscription)
        else:
            self._lane(host).adopt(subscription)

    async def subscriptions(self) -> list[Standing]:
        """The standing queries of the server."""
        found: list[Standing] = []
        start: int | None = 0
        while start is not None:
            params = {"start": str(start), "limit": "1000"}
            page = decoded(await self._requests.request("GET", "/v1/subscriptions", params=params), StandingBody)
            found += page.subscriptions
            # A page that does not go on would be asked for for ever.
            start = page.next if page.next is not None and page.next > start else None
        return found

    # Questions.

    async def query(self, sql: str, *, after: int | None = None) -> Answer:
        """Ask once: SELECT, SHOW or EXPLAIN. `after`: not before the server has come to this position."""
        if self._service is not None:
            found = await self._service.query(sql, after or 0)
            if found is not None:
                return found
            after = max(after or 0, self._service.state.seen)
        body = {"sql": sql} if after is None else {"sql": sql, "after": after}
        answer = (await self._requests.ask("/v1/query", body, AnswerBody)).answer()
        return answer if self._service is None else await self._service.completed(sql, answer)

    async def explain(self, sql: str) -> Explanation:
        """Explain a statement, without executing it."""
        found = await self._requests.ask("/v1/explain", {"sql": sql}, Explanation)
        own = None if self._service is None else await self._service.explained(sql)
        if own is None:
            return found
        return Explanation(f"{found.text}\n{own.text()}", found.tree | {"cache": own.plain()})

    # Changes.

    async def execute(self, sql: str) -> None:
        """Do a statement: CREATE TABLE, DROP TABLE, SUBSCRIBE name AS …, DROP SUBSCRIPTION."""
        # sqlglot takes a while to import, and most programs define nothing.
        from slackwater.client.statements import Definition, Removal, understood

        match understood(sql):
            case Definition(path):
                content = msgspec.json.encode({"sql": sql})
                # Making a table again does nothing; registering a name again is refused.
                await self._requests.request("POST", path, content=content, safe=path == "/v1/tables")
            case Removal(path, name, if_exists):
                try:
                    await self._requests.request("DELETE", f"{path}/{quote(name, safe='')}", safe=False)
                except Refused as error:
                    if not (if_exists and error.status == 404):
                        raise

    async def ingest(
        self,
        table: str,
        rows: RowsLike,
        *,
        source: str | None = None,
        first: int | None = None,
        key: str | None = None,
        delete: bool = False,
        columns: Sequence[str] | None = None,
        timezone: str | None = None,
    ) -> Receipt:
        """Send rows; returns when they are durable.

        Rows are mappings from columns to values, or tuples, whose values `columns` names (the table's columns in their
        order, if left out), or an Arrow table or batch, or a data frame of polars or pandas. `timezone` is the zone of
        times that carry none.

        Rows are known by their source and number, so whatever is sent again after a failure is taken once. A program
        that numbers its rows itself says `source` and the number of the first, and may repeat them after a restart
        too. A program without numbers says a `key`: the same rows under the same key are taken once, for 24 hours, also
        after a restart. Otherwise this client numbers them under a name of its own.
        """
        columns = await self._columns(table, rows, columns)
        told = {"operation": "delete" if delete else "upsert"} | ({} if timezone is None else {"timezone": timezone})
        if key is not None:
            return await self._ingest_under(key, table, _bodies(rows, columns), source, first, told)
        if first is not None and source is None:
            raise ValueError("rows with numbers need the name of their source: ingest(…, source='desk-7', first=0)")
        if source is not None and not source:
            raise ValueError("a source has a name of at least one character")
        async with self._numbering:
            # One at a time, so that numbers arrive in their order.
            name = source if source is not None and first is not None else f"{source or 'client'}/{self._name}"
            number = self._numbers.get(name, 0) if first is None else first
            receipt = Receipt(0, 0, 0, 0)
            for body, count, headers in _bodies(rows, columns):
                params = told | {"source": name, "first": str(number)}
                number += count
                if first is None:
                    # Also where it fails: what was sent may have been taken.
                    self._numbers[name] = number
                receipt = await self._send(table, body, params, headers, receipt)
        return receipt

    async def _ingest_under(
        self,
        key: str,
        table: str,
        bodies: Iterable[_Body],
        source: str | None,
        first: int | None,
        told: Mapping[str, str],
    ) -> Receipt:
        """Send rows under an idempotency key; of several requests each has its own, in the order of the rows."""
        if first is not None:
            raise ValueError("rows have numbers (first=…) or a key (key=…), not both: each alone makes repeating safe")
        if not (1 <= len(key) <= LONGEST_KEY and key.isascii() and key.isprintable()):
            raise ValueError(f"a key has 1 to {LONGEST_KEY} printable characters of ASCII, this one is {key!r}")
        params = dict(told) | ({} if source is None else {"source": source})
        receipt = Receipt(0, 0, 0, 0)
        for nth, (body, _, headers) in enumerate(bodies):
            receipt = await self._send(table, body, params, headers | {"idempotency-key": f"{key}/{nth}"}, receipt)
        return receipt

    async def _columns(self, table: str, rows: RowsLike, columns: Sequence[str] | None) -> Sequence[str] | None:
        """The names of the values of tuples: those of the table, where the program names none."""
        if columns is not None or not (isinstance(rows, Sequence) and rows and isinstance(rows[0], tuple | list)):
            return columns
        answer = await self._requests.request("GET", f"/v1/tables/{quote(table, safe='')}")
        return [column.name for column in decoded(answer, TableColumns).columns]

    def stream(
        self,
        table: str,
        *,
        source: str | None = None,
        first: int | None = None,
        columns: Sequence[str] | None = None,
        timezone: str | None = None,
        most: int = MOST_UNACKNOWLEDGED,
    ) -> IngestStream:
        """A stream of rows into a table, to be used in `async with`; `send` returns before they are durable.

        Rows go over the live connection, acknowledged in order once they are durable. After a new connection what was
        not acknowledged is sent again, and taken once. `source`, `first`, `columns` and `timezone` are those of
        `ingest`; `columns` names the values of all tuples of the stream. `most`: rows on their way before `send` waits.
        """
        if first is not None and source is None:
            raise ValueError("rows with numbers need the name of their source: stream(…, source='desk-7', first=0)")
        if source is not None and not source:
            raise ValueError("a source has a name of at least one character")
        if most < 1:
            raise ValueError(f"most is a number of rows from 1 on, not {most}")
        if not self._sessions:
            raise _not_connected()
        # Each stream has numbers of its own, so it has a source of its own where the program does not number.
        name = source if source is not None and first is not None else self._own_source(source)
        options = StreamOptions(table, name, first or 0, columns, timezone, most)
        return IngestStream(self._lane(None), self._request_rows, options)

    def _own_source(self, source: str | None) -> str:
        self._streams += 1
        return f"{source or 'client'}/{self._name}/{self._streams}"

    async def _request_rows(self, request: RowRequest) -> ReceiptBody:
        """Send rows of a stream where no live connection takes them."""
        params = {"source": request.source, "first": str(request.first)}
        params |= {"operation": "delete"} if request.deletes else {}
        params |= {} if request.timezone is None else {"timezone": request.timezone}
        path = f"/v1/tables/{quote(request.table, safe='')}/rows"
        headers = _ARROW if request.arrow else _LINES
        answer = await self._requests.request("POST", path, content=request.body, headers=headers, params=params)
        return decoded(answer, ReceiptBody)

    async def _send(
        self, table: str, body: bytes, params: Mapping[str, str], headers: Mapping[str, str], before: Receipt
    ) -> Receipt:
        path = f"/v1/tables/{quote(table, safe='')}/rows"
        answer = await self._requests.request("POST", path, content=body, headers=headers, params=params)
        taken = decoded(answer, ReceiptBody)
        return Receipt(
            before.accepted + taken.accepted,
            before.quarantined + taken.quarantined,
            before.repeats + taken.repeats,
            taken.position,
            before.promised.plus(taken.promised),
        )

    @property
    def _requests(self) -> Rest:
        if self._rest is None:
            raise _not_connected()
        return self._rest


def _bodies(rows: RowsLike, columns: Sequence[str] | None) -> Iterator[_Body]:
    """Rows in any form as bodies of requests."""
    if exports_arrow(rows):
        for body, count, arrow in arrow_batches(rows):
            yield body, count, _ARROW if arrow else _LINES
    else:
        for body, count in batches(records(rows, columns)):
            yield body, count, _LINES


def _not_connected() -> SlackwaterError:
    return SlackwaterError("not connected yet: use `async with slackwater.connect(…) as client:`")


def connect(
    urls: str | Iterable[str],
    *,
    token: str | None = None,
    wait: float = 5.0,
    patience: float = 30.0,
    bus: str | None = None,
    cache: Cache | None = None,
) -> Client:
    """A client of the server at a URL, or of whichever of several answers; use it in `async with`.

    `wait`: seconds until a server that does not answer is given up on entering. `patience`: seconds for which a
    request is repeated while servers cannot be reached; subscriptions are repeated for as long as the client lives.
    `bus`: carry subscriptions over NATS, at `nats://host:4222` or, where the server has a name there,
    `nats://host:4222/name`. `cache`: answer questions from what is pushed to this client, as far as that goes
    (`slackwater.Cache`; needs the extra `[cache]`).
    """
    return Client(urls, token=token, wait=wait, patience=patience, bus=bus, cache=cache)
