"""REST of tables: list, show, create, drop."""

from http import HTTPStatus

import msgspec
from starlette.responses import Response

from slackwater.core.errors import SchemaError
from slackwater.core.schema import LONGEST_NAME, TableSchema
from slackwater.core.statement import CreateTable
from slackwater.core.types import Position
from slackwater.kinds.registry import kind_of
from slackwater.log import TableDefined, TableDropped
from slackwater.server.group_commit import Target
from slackwater.server.rest.bodies import Changed, ColumnBody, Statement, TableAnswer, TableBody, Tables
from slackwater.server.rest.errors import RequestRefused
from slackwater.server.rest.operation import (
    JSON,
    Call,
    Parameter,
    RestOperation,
    answered,
    decoded,
    unsupported,
    wrong,
)
from slackwater.server.rest.rights import visible_count
from slackwater.server.store import Scope
from slackwater.sql import Catalog, bind, parse

TABLE = Parameter("table", "The table's name.", {"type": "string", "minLength": 1, "maxLength": LONGEST_NAME}, True)


async def list_tables(call: Call) -> Response:
    """All tables."""
    engine = call.node.engine
    return answered(Tables([_shown(call, table) for table in engine.tables.values()], engine.position))


async def get_table(call: Call) -> Response:
    """One table."""
    return answered(_shown(call, call.table(call.path("table"))))


async def create_table(call: Call) -> Response:
    """Make a table, or add nullable columns to one."""
    if call.media_type() != JSON:
        raise unsupported(JSON)
    schema, may_exist = _definition(call, await call.body(call.limits.small_body))

    def change(target: Target) -> tuple[Position, bool]:
        present = target.log.catalog().find(schema.name)
        if present is not None and (may_exist or present == schema):
            return target.log.end, False
        return target.log.append([TableDefined(schema)]), True

    position, made = await call.node.change(change)
    await call.node.reached(position, call.limits.wait_seconds)
    return answered(_shown(call, call.table(schema.name)), HTTPStatus.CREATED if made else HTTPStatus.OK)


def _definition(call: Call, body: bytes) -> tuple[TableSchema, bool]:
    """The table that is wanted, and whether it may be there already."""
    fields = decoded(body, dict[str, msgspec.Raw])
    if "sql" not in fields:
        try:
            return decoded(body, TableBody).schema(), False
        except SchemaError as error:
            raise wrong(str(error)) from None
    text = decoded(body, Statement).sql
    statement = bind(parse(text), Catalog(()))
    if not isinstance(statement, CreateTable):
        raise wrong("CREATE TABLE was expected here; other statements have other addresses, see /v1/openapi.json")
    return statement.schema, statement.if_not_exists


async def drop_table(call: Call) -> Response:
    """Drop a table that no standing query reads."""
    table = call.table(call.path("table"))
    call.node.engine.check_rows(table.name)
    engine = call.node.engine
    # A cache ends with its table: the client finds out, and asks.
    standing = [one for one in engine.standing_on(table.name) if kind_of(engine.query(one)).holds_table]
    if standing:
        raise RequestRefused(
            HTTPStatus.CONFLICT, "in_use", f"{len(standing)} subscriptions read table {table.name}; drop them first"
        )
    position = await call.node.change(lambda target: target.log.append([TableDropped(table.name)]))
    await call.node.reached(position, call.limits.wait_seconds)
    return answered(Changed(position))


def _shown(call: Call, table: TableSchema) -> TableAnswer:
    engine = call.node.engine
    columns = [ColumnBody(column.name, column.type.value, column.nullable) for column in table.columns]
    rows, standing = visible_count(call, table.name), len(engine.standing_on(table.name))
    return TableAnswer(table.name, columns, list(table.key), table.event_time, rows, standing)


OPERATIONS = (
    RestOperation(
        "GET", "/v1/tables", "listTables", "List the tables.", list_tables, Scope.READ, {200: {JSON: Tables}}
    ),
    RestOperation(
        "POST",
        "/v1/tables",
        "createTable",
        "Make a table by `CREATE TABLE` or by its definition, or add nullable columns at its end. "
        "Doing it again does nothing.",
        create_table,
        Scope.ADMIN,
        {200: {JSON: TableAnswer}, 201: {JSON: TableAnswer}},
        takes={JSON: Statement | TableBody},
        fails=frozenset({409}),
    ),
    RestOperation(
        "GET",
        "/v1/tables/{table}",
        "getTable",
        "Show a table.",
        get_table,
        Scope.READ,
        {200: {JSON: TableAnswer}},
        parameters=(TABLE,),
        fails=frozenset({404}),
    ),
    RestOperation(
        "DELETE",
        "/v1/tables/{table}",
        "dropTable",
        "Drop a table. Its rows stay in the log until retention drops them.",
        drop_table,
        Scope.ADMIN,
        {200: {JSON: Changed}},
        parameters=(TABLE,),
        fails=frozenset({404, 409}),
    ),
)
