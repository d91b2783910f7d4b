"""HTTP poller: periodic requests for a JSON array, object or lines, or CSV.

The poller never raises while it runs: whatever goes wrong is a `Failed` or `Suspended` outcome, followed by another
try. It ends when it is cancelled, or when its consumer closes it.

Identity: `$seq` is the microsecond of the fetch plus the ordinal of the row in the answer, always above the last one.
What this loses: the same row fetched twice is two updates, also after a restart (`only_changes` drops those of the
previous answer, and conditional requests those the server knows about); changes between two requests are not seen.
"""

import asyncio
import hashlib
import random
from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import replace

import httpx
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from slackwater.core.arrival import Arrival
from slackwater.core.arrow import EVENT_TIME, INSTANT, SEQUENCE
from slackwater.core.clock import Clock
from slackwater.core.schema import TableSchema
from slackwater.core.types import Instant
from slackwater.sources.base import FileRows
from slackwater.sources.bodies import BadBody, BodyFormat, body_rows
from slackwater.sources.http_request import HttpRequester, checked, public, read_body
from slackwater.sources.poll_schedule import (
    Failed,
    Fetched,
    NotModified,
    PollOptions,
    PollOutcome,
    PollProgress,
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
        self._url = checked(address)
        self.place = public(self._url)
        self.schema = schema
        self._table = table
        # What follows the address (a query) tells two pollers apart, but may hold secrets: a mark of it will do.
        mark = hashlib.blake2b(str(self._url).encode(), digest_size=3).hexdigest()
        self._source = source or f"{self.place}@{mark}"
        self._clock = clock
        self._chance = chance
        self._options = options or PollOptions()
        self._requester = HttpRequester(self._options)
        self._format = format
        self._timezone = timezone
        self._wait = wait
        self._progress = PollProgress()
        self._last_sequence = -1
        self._previous: frozenset[bytes] = frozenset()

    async def outcomes(self) -> AsyncGenerator[PollOutcome, None]:
        """Poll for ever, one outcome for each request; wrap in `contextlib.aclosing` to stop early."""
        options = self._options
        bucket = TokenBucket(options.rate, options.burst, self._clock)
        async with self._requester.client() as client:
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
            return await self._requester.ask(client, self._url, self._progress.validators.headers(), self._answer)
        except BadBody as error:
            return self._failed(error.reason, str(error))

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
        return Failed(reason, detail[:500], failures, self._options.backoff.delay(failures, self._chance.random))

    def _arrivals(self, parts: list[FileRows], now: Instant) -> tuple[Arrival, ...]:
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

    def _changed(self, rows: FileRows, current: set[bytes]) -> FileRows:
        """Leave out the rows that stood in the previous answer; note those of this one."""
        digests = row_digests(rows.batch)
        current.update(digests)
        new: npt.NDArray[np.bool_] = np.array([digest not in self._previous for digest in digests], np.bool_)
        return FileRows(rows.numbers[new], rows.batch.filter(pa.array(new)), rows.refused)


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
