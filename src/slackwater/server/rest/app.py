"""REST application: routes from operations, one dispatch for every request, errors as JSON."""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from http import HTTPStatus

import msgspec
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route, WebSocketRoute

from slackwater.core.errors import SlackwaterError
from slackwater.dissemination.transports.asgi import recognise
from slackwater.server.access import Caller, caller
from slackwater.server.connections import ConnectionSlots
from slackwater.server.direct_lane import Endpoint
from slackwater.server.group_commit import Busy
from slackwater.server.live import Live
from slackwater.server.node import Node
from slackwater.server.oneshot.plans import PlanCache
from slackwater.server.oneshot.pool import WorkerPool
from slackwater.server.oneshot.small_tables import SmallTableEvaluator
from slackwater.server.rest.errors import answer, problem
from slackwater.server.rest.openapi import document
from slackwater.server.rest.operation import JSON, Call, RestOperation, Service, wrong
from slackwater.server.rest.routes import OPERATIONS
from slackwater.server.rest.rows import SEND_ROWS
from slackwater.server.whole_request import WholeRequest

_report = logging.getLogger("slackwater.server")

_CODES = {404: "not_found", 405: "method_not_allowed"}
_SENTENCES = {
    404: "there is nothing at this address; see /v1/openapi.json",
    405: "this address does not take this method; see /v1/openapi.json",
}


def make_app(
    node: Node,
    failed: Callable[[], None] = lambda: None,
    live: Live | None = None,
    slots: ConnectionSlots | None = None,
) -> Starlette:
    """The application of an open node; `failed` is called when the node cannot go on. The node ends with it."""
    live = live or Live(node)
    limits = node.settings.limits
    pool = WorkerPool(node.engine, limits)
    node.leaving.append(pool.end)
    small_tables = SmallTableEvaluator(limits)
    service = Service(node, PlanCache(small_tables.evaluator), small_tables, pool, slots=slots)
    described = msgspec.json.encode(document(OPERATIONS))

    async def openapi(_: Request) -> Response:
        return Response(described, media_type=JSON)

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        node.start(failed)
        try:
            yield
        finally:
            await node.stop()
            await pool.close()
            small_tables.close()

    routes = [Route(one.path, _endpoint(one, service), methods=[one.method]) for one in OPERATIONS]
    by_path: dict[str, list[Route]] = {}
    for route in routes:
        by_path.setdefault(route.path, []).append(route)
    app = Starlette(
        routes=[
            *(_together(path, some) for path, some in by_path.items()),
            Route("/v1/openapi.json", openapi, methods=["GET"]),
            WebSocketRoute("/v1/live", live.endpoint),
        ],
        exception_handlers={HTTPException: _http_problem, Exception: _unforeseen},
        lifespan=lifespan,
    )
    app.state.direct = _endpoint(SEND_ROWS, service)
    return app


def _together(path: str, routes: list[Route]) -> Route:
    """One route for an address, so that a method it does not take is answered with those that it does."""
    by_method = {method: route.endpoint for route in routes for method in route.methods or ()}

    async def dispatch(request: Request) -> Response:
        response: Response = await by_method[request.method](request)
        return response

    return Route(path, dispatch, methods=sorted(by_method))


def direct_endpoint(app: Starlette) -> Endpoint:
    """The endpoint of an application for whole requests of rows."""
    endpoint: Endpoint = app.state.direct
    return endpoint


def _endpoint(operation: RestOperation, service: Service) -> Callable[[Request | WholeRequest], Awaitable[Response]]:
    known = {one.name for one in operation.parameters if not one.in_path and not one.in_header}

    async def endpoint(request: Request | WholeRequest) -> Response:
        service.busy += 1
        try:
            if service.busy > service.limits.requests:
                raise Busy(f"{service.busy} requests are under way already; come again in a moment")
            who = Caller()
            if operation.scope is not None:
                who = caller(request, service.node.store, operation.scope)
                recognise(request.scope)
            _check_parameters(request, known)
            return await operation.handler(Call(service, request, who))
        except SlackwaterError as error:
            return answer(error)
        except asyncio.CancelledError:
            raise
        except Exception:
            _report.exception("%s %s failed", operation.method, operation.path)
            return problem(HTTPStatus.INTERNAL_SERVER_ERROR, "internal", "the server made a mistake; its log has more")
        finally:
            service.busy -= 1

    return endpoint


def _check_parameters(request: Request | WholeRequest, known: set[str]) -> None:
    """A parameter that is misspelt must not be passed over in silence."""
    given = [name for name, _ in request.query_params.multi_items()]
    for name in given:
        if name not in known:
            raise wrong(f"there is no parameter {name[:60]!r} here; there are: {', '.join(sorted(known)) or 'none'}")
    if len(set(given)) != len(given):
        raise wrong("a parameter is given twice")


async def _http_problem(_: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    status = error.status_code
    sentence = _SENTENCES.get(status, error.detail)
    return problem(status, _CODES.get(status, "http"), sentence, headers=dict(error.headers or {}))


async def _unforeseen(_: Request, error: Exception) -> Response:
    return problem(HTTPStatus.INTERNAL_SERVER_ERROR, "internal", "the server made a mistake; its log has more")
