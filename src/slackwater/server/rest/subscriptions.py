"""REST of standing queries: register, list, explain, drop. Live connections deliver their answers."""

import asyncio
from http import HTTPStatus
from itertools import islice

from starlette.responses import Response

from slackwater.core.hosts import HostKind
from slackwater.core.statement import Subscribe
from slackwater.core.types import Position
from slackwater.hosting.step import Registration
from slackwater.log import Unregistered
from slackwater.server.group_commit import Target
from slackwater.server.planners.network.service import NetworkPlanner
from slackwater.server.planners.network.state import ClientReport as Report
from slackwater.server.rest.bodies import Changed, Explanation, Seen, Statement, Subscription, Subscriptions, Taken
from slackwater.server.rest.errors import RequestRefused
from slackwater.server.rest.operation import JSON, Call, Parameter, RestOperation, answered, missing, wrong
from slackwater.server.rest.subscription_view import described, subscribed
from slackwater.server.store import Scope
from slackwater.sessions.registrar import taken

_MOST_LISTED = 1_000
WHICH = Parameter(
    "subscription", "Its number or its name.", {"type": "string", "minLength": 1, "maxLength": 128}, in_path=True
)


async def register(call: Call) -> Response:
    """Register a query, also without subscribers."""
    node = call.node
    sql = (await call.json(Statement)).sql
    await asyncio.to_thread(node.engine.read, sql)
    bound = node.registrar.bind(sql, call.caller.name)
    if bound.name is None:
        raise wrong("give it a name, SUBSCRIBE name AS SELECT …; without one it lasts only while a client subscribes")
    record = node.registrar.record(bound, call.caller.name)

    def change(target: Target) -> tuple[int, Position]:
        number = int(target.log.end)
        for table in bound.query.tables:
            if target.log.catalog().find(table) is None:
                raise missing(f"table {table} was dropped meanwhile")
        if node.registrar.rights.of(call.caller.name).on(bound.query.tables) != bound.rights:
            raise RequestRefused(HTTPStatus.CONFLICT, "rights", "your rights have changed meanwhile; ask again")
        return number, target.log.append([record])

    number, position = await node.change(change)
    await node.reached(position, call.limits.wait_seconds)
    known = node.engine.registry.named(bound.name)
    if known is not None and known.number != number:
        # Another request for the name came before this one in the log.
        raise taken(bound.name)
    return answered(described(node, _found(call, str(number))), HTTPStatus.CREATED)


async def list_all(call: Call) -> Response:
    """List what stands."""
    start = call.integer("start", 0, 0, 2**62) or 0
    limit = call.integer("limit", 100, 1, _MOST_LISTED) or 100
    await call.node.foresee()
    engine = call.node.engine
    numbers = sorted(number for number in engine.registrations if number >= start)
    listed = [described(call.node, engine.registrations[number]) for number in islice(numbers, limit)]
    following = numbers[limit] if len(numbers) > limit else None
    return answered(Subscriptions(listed, following, engine.position))


async def get_one(call: Call) -> Response:
    """Show one."""
    await call.node.foresee()
    return answered(described(call.node, _found(call, call.path("subscription"))))


async def explain_one(call: Call) -> Response:
    """Explain one."""
    one = _found(call, call.path("subscription"))
    query = call.node.engine.query(one.number)
    tree = await subscribed(call.node, Subscribe(query), one.host)
    if one.host is HostKind.NETWORK:
        plans = (planner.explain(query, one.number) for planner in call.node.planners)
        tree = tree.with_parts(*(part for part in plans if part is not None))
    return answered(Explanation(tree.text(), dict(tree.plain())))


async def seen(call: Call) -> Response:
    """Note what a client of a planned query has seen."""
    one = _found(call, call.path("subscription"))
    body = await call.json(Seen)
    planner = call.node.planner(NetworkPlanner)
    if one.host is not HostKind.NETWORK or planner is None:
        raise wrong(f"subscription {one.number} is not planned over aggregators: there is nothing to report of it")
    report = Report(body.seconds, body.uncertain, body.messages, body.planning)
    planner.state.reported(one.number, report)
    return answered(Taken("ok"))


async def drop(call: Call) -> Response:
    """Drop one."""
    one = _found(call, call.path("subscription"))
    if one.owner != call.caller.name and not call.caller.allows(Scope.ADMIN):
        raise RequestRefused(
            HTTPStatus.FORBIDDEN, "forbidden", f"it belongs to {one.owner}; they or an admin may drop it"
        )
    table = call.node.engine.query(one.number).table
    position = await call.node.change(lambda target: target.log.append([Unregistered(table, one.number)]))
    await call.node.reached(position, call.limits.wait_seconds)
    return answered(Changed(position))


def _found(call: Call, which: str) -> Registration:
    engine = call.node.engine
    number = int(which) if which.isascii() and which.isdigit() and len(which) <= 20 else None
    found = engine.registrations.get(number) if number is not None else None
    found = found or engine.named(which)
    if found is None:
        raise missing(f"there is no subscription {which!r}")
    return found


OPERATIONS = (
    RestOperation(
        "POST",
        "/v1/subscriptions",
        "registerSubscription",
        "Register a standing query under a name: `SUBSCRIBE name AS SELECT …`. It is kept until it is dropped.",
        register,
        Scope.READ,
        {201: {JSON: Subscription}},
        takes={JSON: Statement},
        fails=frozenset({404, 409}),
    ),
    RestOperation(
        "GET",
        "/v1/subscriptions",
        "listSubscriptions",
        "List standing queries with what was measured of them.",
        list_all,
        Scope.READ,
        {200: {JSON: Subscriptions}},
        parameters=(
            Parameter("start", "From this number on.", {"type": "integer", "minimum": 0, "maximum": 2**62}),
            Parameter("limit", "At most so many.", {"type": "integer", "minimum": 1, "maximum": _MOST_LISTED}),
        ),
    ),
    RestOperation(
        "GET",
        "/v1/subscriptions/{subscription}",
        "getSubscription",
        "Show a standing query.",
        get_one,
        Scope.READ,
        {200: {JSON: Subscription}},
        parameters=(WHICH,),
        fails=frozenset({404}),
    ),
    RestOperation(
        "GET",
        "/v1/subscriptions/{subscription}/explain",
        "explainSubscription",
        "Say what a standing query means.",
        explain_one,
        Scope.READ,
        {200: {JSON: Explanation}},
        parameters=(WHICH,),
        fails=frozenset({404}),
    ),
    RestOperation(
        "POST",
        "/v1/subscriptions/{subscription}/seen",
        "reportSeen",
        "Tell what a client of a planned query has seen since it last told; it is shown, and nothing is decided by it.",
        seen,
        Scope.READ,
        {200: {JSON: Taken}},
        takes={JSON: Seen},
        parameters=(WHICH,),
        fails=frozenset({404}),
    ),
    RestOperation(
        "DELETE",
        "/v1/subscriptions/{subscription}",
        "dropSubscription",
        "Drop a standing query; its owner or an admin may.",
        drop,
        Scope.READ,
        {200: {JSON: Changed}},
        parameters=(WHICH,),
        fails=frozenset({404}),
    ),
)
