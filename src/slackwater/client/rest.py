"""HTTP requests with failover between servers, and retries where they are safe.

A request that changes nothing, or whose repeats are known as such, is sent again after any failure. Another one is
sent again only where the server cannot have taken it: it could not be reached, or it said that it is busy.
"""

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

import httpx
import msgspec

from slackwater.client.address import Address
from slackwater.client.failures import Misunderstood, Refused, of_answer
from slackwater.core.backoff import Backoff
from slackwater.core.errors import SlackwaterError
from slackwater.dissemination.transports.base import Unreachable

T = TypeVar("T")
LARGEST_ANSWER = 256 << 20
"""Bytes of an answer that are taken in."""
_BACKOFF = Backoff(first=0.1, most=2.0)
_BUSY = (429, 503)
_JSON = {"content-type": "application/json"}


class Rest:
    """The requests of one client."""

    def __init__(
        self,
        addresses: Sequence[Address],
        token: str | None,
        patience: float,
        jitter: Callable[[], float],
    ) -> None:
        self._addresses = addresses
        self._patience = patience
        self._jitter = jitter
        self._current = 0
        headers = {"accept": "application/json"}
        if token is not None:
            headers["authorization"] = f"Bearer {token}"
        self._http = httpx.AsyncClient(headers=headers, timeout=httpx.Timeout(30.0, connect=5.0))

    async def close(self) -> None:
        """Close the open connections."""
        await self._http.aclose()

    async def ask(self, path: str, body: object, kind: type[T], *, safe: bool = True) -> T:
        """POST some JSON and read the answer."""
        return decoded(await self.request("POST", path, content=msgspec.json.encode(body), safe=safe), kind)

    async def request(
        self,
        method: str,
        path: str,
        *,
        content: bytes | None = None,
        headers: Mapping[str, str] = _JSON,
        params: Mapping[str, str] | None = None,
        safe: bool = True,
        patience: float | None = None,
    ) -> bytes:
        """Send a request until it is answered: return the body of a success, raise the error of a refusal."""
        deadline = time.monotonic() + (self._patience if patience is None else patience)
        failures = 0
        while True:
            address = self._addresses[self._current % len(self._addresses)]
            try:
                return await self._once(address, method, path, content, headers, params)
            except (_Busy, httpx.TransportError) as failure:
                unsent = isinstance(failure, httpx.ConnectError | httpx.ConnectTimeout)
                if isinstance(failure, _Busy):
                    unsent = not failure.unknown
                if not unsent and not safe:
                    if isinstance(failure, _Busy):
                        raise failure.error from None
                    raise Unreachable(
                        f"the connection to {address} broke before the answer came ({_describe(failure)}): "
                        "look whether it was done before doing it again"
                    ) from None
                failures += 1
                pause = _BACKOFF.delay(failures, self._jitter)
                if time.monotonic() + pause > deadline:
                    raise self._given_up(address, failure) from None
                self._current += 1
                await asyncio.sleep(pause)

    def _given_up(self, address: Address, failure: Exception) -> SlackwaterError:
        if isinstance(failure, _Busy):
            return failure.error
        tried = ", ".join(str(one) for one in self._addresses)
        return Unreachable(
            f"{tried} cannot be reached ({_describe(failure)}): check the address, and that the server is running "
            "(slackwater serve FOLDER)"
        )

    async def _once(
        self,
        address: Address,
        method: str,
        path: str,
        content: bytes | None,
        headers: Mapping[str, str],
        params: Mapping[str, str] | None,
    ) -> bytes:
        url = address.questions + path
        try:
            async with self._http.stream(method, url, content=content, headers=headers, params=params) as response:
                body = bytearray()
                async for piece in response.aiter_bytes():
                    body += piece
                    if len(body) > LARGEST_ANSWER:
                        raise Misunderstood(f"an answer of {address} is above {LARGEST_ANSWER} bytes: ask for less")
        except (httpx.InvalidURL, httpx.DecodingError, httpx.UnsupportedProtocol) as error:
            raise Misunderstood(f"{address} cannot be asked: {error}") from None
        if response.is_success:
            return bytes(body)
        refusal = of_answer(response.status_code, bytes(body), str(address))
        if response.status_code in _BUSY:
            raise _Busy(refusal)
        raise refusal


class _Busy(Exception):
    """A server asks to come again. `unknown`: it does not know whether it did what was asked."""

    def __init__(self, error: SlackwaterError) -> None:
        super().__init__(str(error))
        self.error = error
        self.unknown = isinstance(error, Refused) and error.code == "outcome_unknown"


def decoded(body: bytes, kind: type[T]) -> T:
    """Read an answer."""
    try:
        return msgspec.json.decode(body, type=kind)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise Misunderstood(f"an answer is not as a Slackwater server writes it: {error}") from None


def _describe(error: Exception) -> str:
    return str(error) or type(error).__name__
