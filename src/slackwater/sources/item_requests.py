"""Item fetcher: single items on demand over HTTP, one in each request or batched where the server offers it.

An address holds `{key}` for one item, and may have a sibling with `{keys}` for several, joined by commas. Answers are
rows as everywhere; the row of a key is found by the key column. Of a single item the server's validators (ETag,
Last-Modified) are kept, and 304 means that the value is the one of before. Requests are counted, refused ones too.
"""

import asyncio
import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias
from urllib.parse import quote

import httpx

from slackwater.core.clock import Clock
from slackwater.core.errors import SourceError
from slackwater.core.types import Instant
from slackwater.sources.bodies import BadBody, BodyFormat, body_rows
from slackwater.sources.http_request import HttpRequester, checked, public, read_body
from slackwater.sources.poll_schedule import PollOptions, PollProgress, TokenBucket, retry_after

_SECOND = 1_000_000
_HOLD_BACK = (429, 503)
MOST_TOGETHER = 50
"""Items of one request at most."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Address of the items of a source, and the answer's columns of key and value."""

    one: str
    several: str | None
    key: str
    value: str
    format: BodyFormat = BodyFormat.AUTO
    together: int = MOST_TOGETHER

    def __post_init__(self) -> None:
        for address, mark in ((self.one, "{key}"), (self.several, "{keys}")):
            if address is None:
                continue
            if address.count(mark) != 1:
                raise SourceError(f"the address {address!r} needs {mark} once, where the item is named")
            checked(address.replace(mark, "x"))

    def address(self, keys: Sequence[str]) -> str:
        """Address of one item, or of a batch of items.

        >>> where = Endpoint("http://h/q/{key}", "http://h/q?s={keys}", "symbol", "price")
        >>> where.address(["A/1"]), where.address(["A", "B"])
        ('http://h/q/A%2F1', 'http://h/q?s=A,B')
        """
        named = ",".join(quote(key, safe="") for key in keys)
        if len(keys) == 1 or self.several is None:
            return self.one.replace("{key}", named)
        return self.several.replace("{keys}", named)


@dataclass(frozen=True, slots=True)
class Got:
    """The value of an item."""

    key: str
    value: float


@dataclass(frozen=True, slots=True)
class Same:
    """The value did not change (304)."""

    key: str


@dataclass(frozen=True, slots=True)
class PullFailure:
    """A failed fetch: the reason, and the seconds until the next try."""

    key: str
    why: str
    again: float


Brought: TypeAlias = Got | Same | PullFailure


class ItemFetcher:
    """Fetches items from one server within its rate limit; `client` is its HTTP session."""

    def __init__(self, endpoint: Endpoint, clock: Clock, chance: random.Random, options: PollOptions) -> None:
        self.requests = 0
        self._endpoint = endpoint
        self._clock = clock
        self._chance = chance
        self._options = options
        self._requester = HttpRequester(options)
        self._bucket = TokenBucket(options.rate, options.burst, clock)
        self._progress: dict[str, PollProgress] = {}
        self._rest_until = Instant(0)
        """End of the server's Retry-After period."""

    def client(self) -> httpx.AsyncClient:
        """HTTP session of the requests."""
        return self._requester.client()

    def groups(self, keys: Iterable[str]) -> list[list[str]]:
        """Group items into requests."""
        wanted = list(keys)
        size = 1 if self._endpoint.several is None else self._endpoint.together
        return [wanted[at : at + size] for at in range(0, len(wanted), size)]

    async def fetch(self, client: httpx.AsyncClient, keys: Sequence[str]) -> list[Brought]:
        """One request for the items of one group."""
        rest = (self._rest_until - self._clock.now()) / _SECOND
        if rest > 0:
            return [PullFailure(key, "the server asked for rest", rest) for key in keys]
        while not self._bucket.take():
            await asyncio.sleep(self._bucket.wait())
        self.requests += 1
        known = self._progress.get(keys[0], PollProgress()) if len(keys) == 1 else PollProgress()
        url = httpx.URL(self._endpoint.address(keys))

        async def read(response: httpx.Response) -> list[Brought]:
            return await self._read(response, keys, public(url))

        try:
            return await self._requester.ask(client, url, known.validators.headers(), read)
        except BadBody as error:
            return [self._missed(key, str(error)) for key in keys]
        finally:
            client.cookies.clear()

    async def _read(self, response: httpx.Response, keys: Sequence[str], place: str) -> list[Brought]:
        status, now = response.status_code, self._clock.now()
        if status == 304 and len(keys) == 1:
            self._progress[keys[0]] = PollProgress(self._progress[keys[0]].validators)
            return [Same(keys[0])]
        if status in _HOLD_BACK:
            pause = retry_after(response.headers.get("retry-after"), now, self._options.longest_suspension)
            if pause is not None:
                self._rest_until = Instant(now + round(pause * _SECOND))
                return [PullFailure(key, f"the server answered {status} and asked for rest", pause) for key in keys]
        if not 200 <= status < 300:
            raise BadBody(f"http-{status}", f"the server answered {status} {response.reason_phrase}".rstrip())
        body = await read_body(response, self._options.largest_body)
        found = self._values(body, place, response.headers.get("content-type", ""))
        brought: list[Brought] = []
        for key in keys:
            value = found.get(key)
            if value is None:
                brought.append(self._missed(key, f"the answer has no {self._endpoint.value} of {key}"))
                continue
            # Validators belong to the address of a single item.
            validators = (
                PollProgress().validators.after(response.headers) if len(keys) == 1 else PollProgress().validators
            )
            self._progress[key] = PollProgress(validators)
            brought.append(Got(key, value))
        return brought

    def _values(self, body: bytes, place: str, content_type: str) -> dict[str, float]:
        endpoint, found = self._endpoint, {}
        parts = body_rows(body, place, content_type=content_type, format=endpoint.format, rows_at=self._options.rows_at)
        for rows in parts:
            names = rows.batch.schema.names
            if endpoint.key not in names or endpoint.value not in names:
                continue
            keys = rows.batch.column(endpoint.key).to_pylist()
            for key, cell in zip(keys, rows.batch.column(endpoint.value).to_pylist(), strict=True):
                value = _number(cell)
                if key is not None and value is not None:
                    found[str(key)] = value
        return found

    def _missed(self, key: str, why: str) -> PullFailure:
        progress = self._progress[key] = self._progress.get(key, PollProgress()).failed()
        return PullFailure(key, why[:500], self._options.backoff.delay(progress.failures, self._chance.random))


def _number(cell: object) -> float | None:
    """A cell as a number; text that reads as a number counts."""
    if isinstance(cell, bool) or not isinstance(cell, int | float | str):
        return None
    try:
        value = float(cell)
    except (ValueError, OverflowError):
        return None
    return value if value - value == 0 else None
