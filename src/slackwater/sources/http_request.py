"""HTTP request to an untrusted server: redirects, time and size limited; one error type for all failures."""

import asyncio
import zlib
from collections.abc import Awaitable, Callable, Mapping
from typing import NoReturn, TypeVar

import httpx

from slackwater.core.errors import SourceError
from slackwater.sources.bodies import BadBody
from slackwater.sources.poll_schedule import PollOptions

T = TypeVar("T")


class HttpRequester:
    """HTTP client for untrusted servers, with the limits of these options."""

    def __init__(self, options: PollOptions) -> None:
        self._options = options

    def client(self) -> httpx.AsyncClient:
        """HTTP session of the requests."""
        options = self._options
        return httpx.AsyncClient(
            headers={"Accept-Encoding": "gzip, deflate", "User-Agent": "slackwater", **dict(options.headers)},
            timeout=options.timeout,
            follow_redirects=False,
            trust_env=options.trust_environment,
        )

    async def ask(
        self,
        client: httpx.AsyncClient,
        url: httpx.URL,
        headers: Mapping[str, str],
        read: Callable[[httpx.Response], Awaitable[T]],
    ) -> T:
        """Make a request and read its answer; anything else is `BadBody` with a reason."""
        try:
            async with asyncio.timeout(self._options.timeout):
                return await self._asked(client, client.build_request("GET", url, headers=dict(headers)), read)
        except (TimeoutError, httpx.TimeoutException):
            raise BadBody("timeout", f"no whole answer within {self._options.timeout:g} seconds") from None
        except BadBody:
            raise
        except httpx.ConnectError as error:
            raise BadBody("cannot-connect", str(error)) from None
        except (httpx.NetworkError, httpx.ProtocolError) as error:
            raise BadBody("connection-lost", str(error) or type(error).__name__) from None
        except Exception as error:  # no answer of an untrusted server may end the poller
            raise BadBody("request-failed", f"{type(error).__name__}: {error}") from None

    async def _asked(
        self, client: httpx.AsyncClient, request: httpx.Request, read: Callable[[httpx.Response], Awaitable[T]]
    ) -> T:
        for _ in range(self._options.most_redirects + 1):
            response = await client.send(request, stream=True)
            try:
                if response.next_request is None:
                    return await read(response)
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


def checked(address: str) -> httpx.URL:
    """Validate an address; a `SourceError` where no request can go there."""
    try:
        url = httpx.URL(address)
    except (httpx.InvalidURL, TypeError, ValueError) as error:
        _refuse(address, str(error))
    if url.scheme not in ("http", "https") or not url.host:
        _refuse(address, "it needs http:// or https:// and a host")
    return url


def _refuse(address: str, why: str) -> NoReturn:
    raise SourceError(f"cannot poll {address[:200]!r}: {why}")


def public(url: httpx.URL) -> str:
    """The address without user, password and query, which may be secrets."""
    return str(url.copy_with(userinfo=b"", query=None, fragment=None))


def _origin(url: httpx.URL) -> tuple[str, str, int | None]:
    return url.scheme, url.host, url.port
