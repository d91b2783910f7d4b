"""REST of one-shot queries: SELECT on the latest state, SHOW, EXPLAIN."""

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from http import HTTPStatus
from itertools import islice
from typing import Any

import pyarrow as pa
from sqlglot import exp
from starlette.responses import Response

from slackwater.core.errors import NotSupported, SqlError
from slackwater.core.region import Region
from slackwater.core.schema import TableSchema
from slackwater.core.statement import Catalogued, Explain, Select, Show, Statement, Subscribe
from slackwater.core.types import Position
from slackwater.evaluator import check_size
from slackwater.server.oneshot.answers import arrow_body, json_body
from slackwater.server.oneshot.bounded_cost import is_small
from slackwater.server.oneshot.lookup import Lookup, looked_up
from slackwater.server.oneshot.plans import QueryPlan
from slackwater.server.oneshot.pool import PoolQuestion
from slackwater.server.rest.bodies import Explanation, QueryAnswer, Question, Subscription
from slackwater.server.rest.bodies import Statement as StatementBody
from slackwater.server.rest.errors import RequestRefused
from slackwater.server.rest.operation import ARROW, JSON, Call, RestOperation, answered, wrong
from slackwater.server.rest.rights import visible_count, visible_rows
from slackwater.server.rest.subscription_view import described, subscribed
from slackwater.server.store import Scope
from slackwater.sessions.engine import NodeEngine
from slackwater.sql import Catalog, ExplainTree, bind, explain, nodes, parse

AS_OF_HEADER = "slackwater-as-of"
_SUBSCRIPTION = pa.schema(
    [
        ("number", pa.int64()),
        ("name", pa.string()),
        ("owner", pa.string()),
        ("sql", pa.string()),
        ("within", pa.float64()),
        ("fidelity", pa.float64()),
        ("notifications", pa.int64()),
        ("subscribers", pa.int64()),
        ("host", pa.string()),
        ("pulls", pa.int64()),
        ("pulls_an_hour", pa.float64()),
        ("predicted_pulls_an_hour", pa.float64()),
        ("delivered", pa.float64()),
        ("epoch", pa.int64()),
        ("predicted", pa.float64()),
        ("measured", pa.float64()),
        ("replans", pa.int64()),
        ("planning", pa.int64()),
        ("uncertain", pa.float64()),
    ]
)
"""Columns of SHOW SUBSCRIPTIONS; the last six are of queries that are planned over aggregators."""
_MOST_GUESSES = 1_000
"""Registrations among whose names a misspelt one is looked for."""
_PLANNED = frozenset({"predicted", "measured", "replans", "planning", "uncertain"})


async def ask(call: Call) -> Response:
    """Answer a question at a stated position."""
    question = await call.json(Question)
    accept = call.request.headers.get("accept", "*/*")
    arrow = ARROW in accept and JSON not in accept
    if question.after is not None:
        await _wait_for(call, Position(question.after))
    plan = call.service.plans.find(question.sql, call.node.engine.tables)
    if plan is not None:
        try:
            return await _selected(call, plan, arrow)
        except SqlError:
            # Read the statement itself, not one of its shape, to say what is wrong and where.
            await _bound(call, question.sql)
            raise
    statement, tables = await _read(call, question.sql)
    match statement:
        case Select(query):
            plan = await asyncio.to_thread(call.service.plans.make, question.sql, query, tables)
            return await _selected(call, plan, arrow)
        case Show(what):
            if what is Catalogued.SUBSCRIPTION:
                await call.node.foresee()
            found = _shown(call, what)
        case Explain(inner):
            found = pa.table({"explanation": (await _explained(call, inner)).text().splitlines()})
        case _:
            raise NotSupported("a question is SELECT, SHOW or EXPLAIN; other statements have other addresses")
    write = arrow_body if arrow else json_body
    return _answered(await asyncio.to_thread(write, found, call.node.engine.position), call.node.engine.position, arrow)


async def _wait_for(call: Call, position: Position) -> None:
    node = call.node
    # Who writes the log knows its end; a follower may yet hear of more.
    hopeless = node.writable and position > node.log.end
    if hopeless or not await node.reached(position, call.limits.wait_seconds):
        raise RequestRefused(
            HTTPStatus.CONFLICT,
            "not_reached",
            f"position {position} is not reached; the node is at {node.engine.position}",
        )


async def explain_statement(call: Call) -> Response:
    """EXPLAIN a statement."""
    statement = await _bound(call, (await call.json(StatementBody)).sql)
    tree = await _explained(call, statement)
    return answered(Explanation(tree.text(), dict(tree.plain())))


async def _explained(call: Call, statement: Statement) -> ExplainTree:
    """EXPLAIN tree of a statement: its meaning, the host of its query, and the predicted cost."""
    inner = statement.statement if isinstance(statement, Explain) else statement
    if not isinstance(inner, Subscribe):
        return explain(statement)
    inner = replace(inner, query=call.node.registrar.conjoined(inner.query, call.caller.name)[0])
    name = None if inner.name is None else str(inner.name)
    tree = await subscribed(call.node, inner, call.node.router.host_of(inner.query, name))
    planners = call.node.planners if name is None else ()
    return tree.with_parts(*(part for one in planners if (part := one.explain(inner.query)) is not None))


async def _bound(call: Call, sql: str) -> Statement:
    return (await _read(call, sql))[0]


async def _read(call: Call, sql: str) -> tuple[Statement, Mapping[str, TableSchema]]:
    """A statement, and the tables as they were when it was bound to them."""
    # A long statement takes a while to read; meanwhile others are served.
    parsed = await asyncio.to_thread(parse, sql)
    engine = call.node.engine
    tables = dict(engine.tables)
    catalog = Catalog(tuple(tables.values()), subscriptions=_names_for(parsed.tree, engine))
    return await asyncio.to_thread(bind, parsed, catalog), tables


def _names_for(tree: exp.Expr, engine: NodeEngine) -> tuple[str, ...]:
    """The names of registrations that a statement's own name is compared with: itself, or some to guess from."""
    while isinstance(tree, nodes.ExplainOf):
        tree = tree.this
    match tree:
        case nodes.Subscribe():
            name = tree.alias
        case nodes.DropNamed():
            name = tree.name
        case _:
            return ()
    known = engine.named(name)
    if known is not None and known.name is not None:
        return (known.name,)
    some = islice(engine.registrations.values(), _MOST_GUESSES)
    return tuple({one.name.lower(): one.name for one in some if one.name is not None}.values())


async def _selected(call: Call, plan: QueryPlan, arrow: bool) -> Response:
    if plan.lookup is not None:
        return _looked_up(call, plan.lookup, arrow)
    if plan.is_bounded() and is_small(call.node.engine.host.latest(plan.tables[0])):
        call.node.engine.check_question(plan.tables)
        rows, as_of = visible_rows(call, plan.tables[0]), call.node.engine.position
        body = await call.service.small_tables.answer(plan.statement, plan.tables[0], rows, as_of, arrow)
        return _answered(body, as_of, arrow)
    caller, registrar = call.caller.name, call.node.registrar

    def rights(table: str) -> Region:
        # As they are at the position of the answer: a question may wait for its turn.
        return registrar.rights.of(caller).of(table)

    question = PoolQuestion(plan.statement, plan.tables, arrow)
    asked = asyncio.ensure_future(call.service.pool.answer(caller, question, rights))
    gone = asyncio.ensure_future(call.disconnected())
    try:
        await asyncio.wait((asked, gone), return_when=asyncio.FIRST_COMPLETED)
        if not asked.done():
            raise wrong("the connection ended before the answer was there")
        return _answered(*await asked, arrow)
    finally:
        # A question that nobody waits for is not worked on.
        asked.cancel()
        gone.cancel()


def _looked_up(call: Call, lookup: Lookup, arrow: bool) -> Response:
    """Rows by key, without waiting: they are of one position."""
    engine, rights = call.node.engine, call.node.registrar.rights.of(call.caller.name)
    engine.check_question((lookup.table,))
    found = looked_up(lookup, engine.host.latest(lookup.table), rights.of(lookup.table))
    check_size(found, call.limits)
    call.service.pool.counts["looked up"] += 1
    as_of = engine.position
    return _answered((arrow_body if arrow else json_body)(found, as_of), as_of, arrow)


def _answered(body: bytes, as_of: Position, arrow: bool) -> Response:
    if arrow:
        return Response(body, media_type=ARROW, headers={AS_OF_HEADER: str(as_of)})
    return Response(body, media_type=JSON)


def _cell(row: Subscription, name: str) -> Any:
    """A cell of SHOW SUBSCRIPTIONS."""
    return getattr(row.plan, name, None) if name in _PLANNED else getattr(row, name)


def _shown(call: Call, what: Catalogued) -> pa.Table:
    engine = call.node.engine
    if what is Catalogued.TABLE:
        tables = list(engine.tables.values())
        return pa.table(
            {
                "table": [table.name for table in tables],
                "columns": [", ".join(f"{one.name} {one.type.value}" for one in table.columns) for table in tables],
                "key": [", ".join(table.key) for table in tables],
                "rows": [visible_count(call, table.name) for table in tables],
            }
        )
    if what is Catalogued.SUBSCRIPTION:
        most = call.limits.query_rows
        rows = [described(call.node, one) for one in list(engine.registrations.values())[:most]]
        return pa.table(
            {field.name: [_cell(row, field.name) for row in rows] for field in _SUBSCRIPTION}, _SUBSCRIPTION
        )
    raise NotSupported("a server has no sources of its own; rows are sent to it")


OPERATIONS = (
    RestOperation(
        "POST",
        "/v1/query",
        "query",
        "Answer a SELECT from the latest state, at the position that the answer names; also SHOW and EXPLAIN. "
        f"With `Accept: {ARROW}` the answer is an Arrow IPC stream and the position is in the header {AS_OF_HEADER}.",
        ask,
        Scope.READ,
        {200: {JSON: QueryAnswer, ARROW: None}},
        takes={JSON: Question},
        fails=frozenset({409, 422}),
    ),
    RestOperation(
        "POST",
        "/v1/explain",
        "explain",
        "Say what any statement means, without doing it.",
        explain_statement,
        Scope.READ,
        {200: {JSON: Explanation}},
        takes={JSON: StatementBody},
    ),
)
