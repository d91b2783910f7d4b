"""REST operation: one description from which both a route and its part of the OpenAPI document are made.

So the document cannot promise a route that is not there, leave one out, or forget that a scope is needed.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, TypeAlias, TypeVar

import msgspec
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from slackwater.core.arrow import STREAM_MEDIA_TYPE
from slackwater.core.schema import TableSchema
from slackwater.server.access import Caller
from slackwater.server.connections import ConnectionSlots
from slackwater.server.node import Node
from slackwater.server.oneshot.plans import PlanCache
from slackwater.server.oneshot.pool import WorkerPool
from slackwater.server.oneshot.small_tables import SmallTableEvaluator
from slackwater.server.rest.errors import RequestRefused
from slackwater.server.store import Scope
from slackwater.server.whole_request import WholeRequest
from slackwater.sessions.limits import ServerLimits

JSON = "application/json"
ARROW = STREAM_MEDIA_TYPE
JSON_LINES = "application/x-ndjson"
SVG = "image/svg+xml"

_PATIENCE = 4
"""How many times the limit is read of a body that is over it."""

Body = TypeVar("Body")


@dataclass(slots=True)
class Service:
    """Shared state of all requests."""

    node: Node
    plans: PlanCache
    small_tables: SmallTableEvaluator
    pool: WorkerPool
    busy: int = 0
    """Requests under way."""
    slots: ConnectionSlots | None = None
    """TCP connections of the process, where its own listener takes them."""

    @property
    def limits(self) -> ServerLimits:
        """How much is allowed."""
        return self.node.settings.limits


@dataclass(frozen=True, slots=True)
class Parameter:
    """A value in the path, after the question mark or in a header; `schema` is its JSON schema."""

    name: str
    about: str
    schema: Mapping[str, Any]
    in_path: bool = False
    in_header: bool = False


@dataclass(frozen=True, slots=True)
class Call:
    """One request under way."""

    service: Service
    request: Request | WholeRequest
    caller: Caller

    @property
    def node(self) -> Node:
        """The node that is asked."""
        return self.service.node

    @property
    def limits(self) -> ServerLimits:
        """How much is allowed."""
        return self.service.limits

    def path(self, name: str) -> str:
        """A part of the path."""
        return str(self.request.path_params[name])

    def text(self, name: str, default: str | None = None, most: int = 128) -> str | None:
        """A parameter that is text."""
        value = self.request.query_params.get(name)
        if value is None:
            return default
        if not 1 <= len(value) <= most or not value.isprintable():
            raise wrong(f"{name} must have 1 to {most} printable characters")
        return value

    def header(self, name: str, most: int = 128) -> str | None:
        """A header that is text."""
        value = self.request.headers.get(name.lower())
        if value is not None and not (1 <= len(value) <= most and value.isascii() and value.isprintable()):
            raise wrong(f"the header {name} must have 1 to {most} printable characters of ASCII")
        return value

    def integer(self, name: str, default: int | None, least: int, most: int) -> int | None:
        """A parameter that is a whole number."""
        value = self.request.query_params.get(name)
        if value is None:
            return default
        if not (value.isascii() and value.removeprefix("-").isdigit() and len(value) <= 20):
            raise wrong(f"{name} must be a whole number")
        if not least <= int(value) <= most:
            raise wrong(f"{name} must be from {least} to {most}, not {value}")
        return int(value)

    def table(self, name: str) -> TableSchema:
        """The table of this name, in whatever case."""
        tables = self.node.engine.tables
        found = tables.get(name) or next((tables[one] for one in tables if one.lower() == name.lower()), None)
        if found is None:
            raise missing(f"there is no table {name!r}")
        return found

    async def body(self, most: int) -> bytes:
        """The whole body, if it is not too large and does not come too slowly."""
        if isinstance(self.request, WholeRequest):
            if len(self.request.content) > most:
                raise too_large(most)
            return self.request.content
        pieces: list[bytes] = []
        size = 0
        try:
            async with asyncio.timeout(self.limits.body_seconds):
                async for piece in self.request.stream():
                    size += len(piece)
                    if size <= most:
                        pieces.append(piece)
                    elif size > _PATIENCE * most:
                        break
                    else:
                        # Let go, and read on for a while: who is cut off while sending does not see the answer.
                        pieces.clear()
        except TimeoutError:
            raise RequestRefused(
                HTTPStatus.REQUEST_TIMEOUT,
                "timeout",
                f"the body was not complete after {self.limits.body_seconds:g} seconds; send less at a time",
                {"connection": "close"},
            ) from None
        except ClientDisconnect:
            raise wrong("the connection ended before the body did") from None
        if size > most:
            raise too_large(most)
        return b"".join(pieces)

    async def disconnected(self) -> None:
        """Return when the client is gone; after the body was read, of a request that may take long."""
        assert not isinstance(self.request, WholeRequest)
        while (await self.request.receive())["type"] != "http.disconnect":
            pass

    def media_type(self) -> str:
        """Media type of the body, from the header."""
        return self.request.headers.get("content-type", "").split(";")[0].strip().lower()

    async def json(self, kind: type[Body]) -> Body:
        """The body as a value of this type."""
        if self.media_type() != JSON:
            raise unsupported(JSON)
        return decoded(await self.body(self.limits.small_body), kind)


Handler: TypeAlias = Callable[[Call], Awaitable[Response]]


@dataclass(frozen=True, slots=True)
class RestOperation:
    """One request: how it is made, who may make it, and every answer there can be.

    `takes`: the bodies by media type, as the type of a JSON body or None for others. `gives`: the same for the answer
    of each status. `fails`: the statuses of the other answers, all of them a `Problem`; those that follow from the
    scope, the parameters and the body are added by themselves.
    """

    method: str
    path: str
    name: str
    about: str
    handler: Handler
    scope: Scope | None
    gives: Mapping[int, Mapping[str, Any]]
    takes: Mapping[str, Any] = field(default_factory=dict)
    parameters: tuple[Parameter, ...] = ()
    fails: frozenset[int] = frozenset()

    @property
    def failures(self) -> frozenset[int]:
        """All statuses of the answers that are problems."""
        found = set(self.fails) | {400, 429, 503}
        if self.scope is not None:
            found |= {401, 403}
        if self.takes:
            found |= {408, 413, 415}
        return frozenset(found)


def decoded(body: bytes, kind: type[Body]) -> Body:
    """JSON as a value of a type."""
    try:
        return msgspec.json.decode(body, type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise wrong(f"the body is not what was expected: {error}") from None


def answered(value: Any, status: int = HTTPStatus.OK) -> Response:
    """A value as JSON."""
    return Response(msgspec.json.encode(value), status, media_type=JSON)


def wrong(message: str) -> RequestRefused:
    """A request that makes no sense."""
    return RequestRefused(HTTPStatus.BAD_REQUEST, "bad_request", message)


def missing(message: str) -> RequestRefused:
    """Something that is not there."""
    return RequestRefused(HTTPStatus.NOT_FOUND, "not_found", message)


def too_large(most: int) -> RequestRefused:
    """A body over its limit; what is left of it is not read."""
    message = f"a body may have {most:,} bytes; send it in parts"
    return RequestRefused(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "limit", message, {"connection": "close"})


def unsupported(*expected: str) -> RequestRefused:
    """A body of a kind that is not understood."""
    kinds = " or ".join(expected)
    return RequestRefused(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "media_type", f"send the header Content-Type: {kinds}")
