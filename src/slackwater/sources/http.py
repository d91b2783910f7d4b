"""Polling an address over HTTP: a JSON array, object or lines, or CSV, asked for again and again.

The poller never raises while it runs: whatever goes wrong is a `Failed` or `Suspended` outcome, followed by another
try. It ends when it is cancelled, or when its consumer closes it.

Identity: `$seq` is the microsecond of the fetch plus the ordinal of the row in the answer, always above the last one.
What this loses: the same row fetched twice is two updates, also after a restart (`only_changes` drops those of the
previous answer, and conditional requests those the server knows about); changes between two requests are not seen.
"""

import asyncio
import hashlib
import random
import zlib
from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import replace
from typing import NoReturn

import httpx
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from slackwater.core.arrival import Arrival
from slackwater.core.arrow import EVENT_TIME, INSTANT, SEQUENCE
from slackwater.core.clock import Clock
from slackwater.core.errors import SourceError
from slackwater.core.schema import TableSchema
from slackwater.core.types import Instant
from slackwater.sources.base import Rows
from slackwater.sources.bodies import BadBody, BodyFormat, body_rows
from slackwater.sources.polling import (
    Failed,
    Fetched,
    NotModified,
    PollOptions,
    PollOutcome,
    Progress,
    Suspended,
    TokenBucket,
    retry_after,
)

_SECOND = 1_000_000
_HOLD_BACK = (429, 503)


class HttpPoller:
    """Polls one address for the rows of one table.

    `chance` jitters the back-off; `wait` is how to wait without blocking (a simulation passes its own).
    """

    def __init__(
        self,
        address: str,
        table: str,
        clock: Clock,
        chance: random.Random,
        options: PollOptions | None = None,
        *,
        schema: TableSchema | None = None,
        source: str | None = None,
        format: BodyFormat = BodyFormat.AUTO,
        timezone: str | None = None,
        wait: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._url = _checked(address)
        self.place = _public(self._url)
        self.schema = schema
        self._table = table
        # What follows the address (a query) tells two pollers apart, but may hold secrets: a mark of it will do.
        mark = hashlib.blake2b(str(self._url).encode(), digest_size=3).hexdigest()
        self._source = source or f"{self.place}@{mark}"
        self._clock = clock
        self._chance = chance
        self._options = options or PollOptions()
        self._format = format
        self._timezone = timezone
        self._wait = wait
        self._progress = Progress()
        self._last_sequence = -1
        self._previous: frozenset[bytes] = frozenset()

    async def outcomes(self) -> AsyncGenerator[PollOutcome, None]:
        """Poll for ever, one outcome for each request; wrap in `contextlib.aclosing` to stop early."""
        options = self._options
        bucket = TokenBucket(options.rate, options.burst, self._clock)
        async with httpx.AsyncClient(
            headers={"Accept-Encoding": "gzip, deflate", "User-Agent": "slackwater", **dict(options.headers)},
            timeout=options.timeout,
            follow_redirects=False,
            trust_env=options.trust_environment,
        ) as client:
            while True:
                while not bucket.take():
                    await self._wait(bucket.wait())
                began = self._clock.now()
                outcome = await self._poll(client)
                client.cookies.clear()  # a poller has no session, and a stranger's cookies no limit
                yield outcome
                await self._wait(max(0.0, self._pause(outcome, began)))

    def _pause(self, outcome: PollOutcome, began: Instant) -> float:
        match outcome:
            case Failed():
                return outcome.retry_in
            case Suspended():
                return (outcome.until - self._clock.now()) / _SECOND
            case _:
                return self._options.every - (self._clock.now() - began) / _SECOND

    async def _poll(self, client: httpx.AsyncClient) -> PollOutcome:
        """One request, whatever becomes of it."""
        try:
            async with asyncio.timeout(self._options.timeout):
                return await self._ask(client)
        except (TimeoutError, httpx.TimeoutException):
            return self._failed("timeout", f"no whole answer within {self._options.timeout:g} seconds")
        except BadBody as error:
            return self._failed(error.reason, str(error))
        except httpx.ConnectError as error:
            return self._failed("cannot-connect", str(error))
        except (httpx.NetworkError, httpx.ProtocolError) as error:
            return self._failed("connection-lost", str(error) or type(error).__name__)
        except Exception as error:  # whatever a stranger's answer sets off must not end the poller
            return self._failed("request-failed", f"{type(error).__name__}: {error}")

    async def _ask(self, client: httpx.AsyncClient) -> PollOutcome:
        request = client.build_request("GET", self._url, headers=self._progress.validators.headers())
        for _ in range(self._options.most_redirects + 1):
            response = await client.send(request, stream=True)
            try:
                if response.next_request is None:
                    return await self._answer(response)
                request = self._redirected(request, response.next_request)
            finally:
                await response.aclose()
        raise BadBody("too-many-redirects", f"more than {self._options.most_redirects} redirects")

    def _redirected(self, request: httpx.Request, onward: httpx.Request) -> httpx.Request:
        if onward.url.scheme not in ("http", "https"):
            raise BadBody("bad-redirect", f"redirected to {onward.url.scheme}, which is not HTTP")
        if _origin(onward.url) != _origin(request.url):
            for name, _ in self._options.headers:  # they may hold secrets meant for the first server
                onward.headers.pop(name, None)
        return onward

    async def _answer(self, response: httpx.Response) -> PollOutcome:
        status = response.status_code
        now = self._clock.now()
        if status == 304:
            self._progress = self._progress.succeeded(self._progress.validators)
            return NotModified()
        if status in _HOLD_BACK:
            pause = retry_after(response.headers.get("retry-after"), now, self._options.longest_suspension)
            if pause is not None:
                self._progress = self._progress.failed()
                until = Instant(now + round(pause * _SECOND))
                detail = f"the server answered {status} and asked for {pause:g} seconds of rest"
                return Suspended(until, detail, self._progress.failures)
        if not 200 <= status < 300:
            return self._failed(f"http-{status}", f"the server answered {status} {response.reason_phrase}".rstrip())
        body = await read_body(response, self._options.largest_body)
        parts = body_rows(
            body,
            self.place,
            content_type=response.headers.get("content-type", ""),
            format=self._format,
            rows_at=self._options.rows_at,
        )
        arrivals = self._arrivals(parts, now)
        self._progress = self._progress.succeeded(self._progress.validators.after(response.headers))
        return Fetched(arrivals)

    def _failed(self, reason: str, detail: str) -> Failed:
        self._progress = self._progress.failed()
        failures = self._progress.failures
        return Failed(reason, detail[:500], failures, self._options.backoff.delay(failures, self._chance))

    def _arrivals(self, parts: list[Rows], now: Instant) -> tuple[Arrival, ...]:
        base = max(now, self._last_sequence + 1)
        last = base - 1
        current: set[bytes] = set()
        arrivals = []
        for rows in parts:
            numbers = [*rows.numbers.tolist(), *(r.sequence for r in rows.refused if r.sequence is not None)]
            last = max([last, *(base + number - 1 for number in numbers)])
            refused = tuple(
                r if r.sequence is None else replace(r, sequence=base + r.sequence - 1) for r in rows.refused
            )
            if self._options.only_changes:
                rows = self._changed(rows, current)
            if not rows.batch.num_rows and not refused:
                continue
            count = rows.batch.num_rows
            batch = rows.batch.append_column(SEQUENCE, pa.array(base + rows.numbers - 1, pa.int64()))
            batch = batch.append_column(EVENT_TIME, pa.array(np.full(count, now), pa.int64()).cast(INSTANT))
            places = pa.array(rows.numbers, pa.int64())
            arrivals.append(Arrival(self._table, self._source, batch, self.place, places, self._timezone, refused))
        self._last_sequence = last
        self._previous = frozenset(current)
        return tuple(arrivals)

    def _changed(self, rows: Rows, current: set[bytes]) -> Rows:
        """Leave out the rows that stood in the previous answer; note those of this one."""
        digests = row_digests(rows.batch)
        current.update(digests)
        new: npt.NDArray[np.bool_] = np.array([digest not in self._previous for digest in digests], np.bool_)
        return Rows(rows.numbers[new], rows.batch.filter(pa.array(new)), rows.refused)


async def read_body(response: httpx.Response, largest: int) -> bytes:
    """Read and unpack an answer, never holding more than `largest` bytes of it."""
    encoding = response.headers.get("content-encoding", "identity").strip().lower()
    if encoding not in ("identity", "", "gzip", "x-gzip", "deflate"):
        raise BadBody("unknown-encoding", f"the answer is packed as {encoding}; expected gzip, deflate or nothing")
    # 32 + 15: a gzip or zlib header, whichever there is.
    unpack = zlib.decompressobj(47) if encoding not in ("identity", "") else None
    parts, size = [], 0
    async for chunk in response.aiter_raw():
        if unpack is not None:
            try:
                chunk = unpack.decompress(chunk, largest - size + 1)
            except zlib.error as error:
                raise BadBody("bad-encoding", f"the answer cannot be unpacked: {error}") from error
        size += len(chunk)
        if size > largest:
            raise BadBody("huge-body", f"the answer is larger than the {largest:,} bytes allowed")
        parts.append(chunk)
    if unpack is not None and size and not unpack.eof:
        raise BadBody("bad-encoding", "the packed answer ends in the middle")
    return b"".join(parts)


def row_digests(batch: pa.RecordBatch) -> list[bytes]:
    """A digest of each row's content; a null and a missing member are the same.

    >>> one, two = row_digests(pa.RecordBatch.from_pydict({"a": [1, 1], "b": [None, 2]}))
    >>> one == row_digests(pa.RecordBatch.from_pydict({"a": [1]}))[0], one == two
    (True, False)
    """
    names = batch.schema.names
    return [
        hashlib.blake2b(
            repr(sorted((name, cell) for name, cell in zip(names, cells, strict=True) if cell is not None)).encode(
                "utf-8", "surrogatepass"
            ),
            digest_size=16,
        ).digest()
        for cells in zip(*(column.to_pylist() for column in batch.columns), strict=True)
    ]


def _checked(address: str) -> httpx.URL:
    try:
        url = httpx.URL(address)
    except (httpx.InvalidURL, TypeError, ValueError) as error:
        _refuse(address, str(error))
    if url.scheme not in ("http", "https") or not url.host:
        _refuse(address, "it needs http:// or https:// and a host")
    return url


def _refuse(address: str, why: str) -> NoReturn:
    raise SourceError(f"cannot poll {address[:200]!r}: {why}")


def _public(url: httpx.URL) -> str:
    """The address without user, password and query, which may be secrets."""
    return str(url.copy_with(userinfo=b"", query=None, fragment=None))


def _origin(url: httpx.URL) -> tuple[str, str, int | None]:
    return url.scheme, url.host, url.port
