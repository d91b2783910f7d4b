"""`slackwater sql TEXT`: SQL parsed, checked and explained here, or run by a node with --server."""

import sys
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from slackwater.cli.output import AsJson, console, errors, need_node, plain, print_json, table
from slackwater.cli.remote_sql import ask_node
from slackwater.core.errors import SlackwaterError, SqlError
from slackwater.core.statement import Catalogued, CreateSource, CreateTable, Drop, Show, Statement, Subscribe

if TYPE_CHECKING:
    from slackwater.log import LocalLog
    from slackwater.sql import Catalog


def sql(
    text: Annotated[str, typer.Argument(help="One or more statements, separated by semicolons; '-' reads them.")],
    log: Annotated[
        Path | None, typer.Option("--log", help="Use the tables of this log; CREATE and DROP TABLE change it.")
    ] = None,
    server: Annotated[
        str | None,
        typer.Option("--server", help="Ask this node, as in http://localhost:8400: SELECT, SHOW, EXPLAIN and changes."),
    ] = None,
    token: Annotated[
        str | None, typer.Option("--token", envvar="SLACKWATER_TOKEN", help="The node's token, where it wants one.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Say what each statement means. Names are checked against the log's tables, and those created before."""
    from slackwater.sql import Catalog, bind, parse_all

    if text == "-":
        text = sys.stdin.read()
    if server is not None:
        if log is not None:
            raise SlackwaterError("give --server or --log, not both: a node has a log of its own")
        ask_node(server, token, text, as_json=as_json)
        return
    outcomes: list[dict[str, Any]] = []
    with ExitStack() as stack:
        opened = None if log is None else stack.enter_context(_opened(log, text))
        catalog = Catalog(tables=() if opened is None else tuple(opened.catalog()))
        try:
            for parsed in parse_all(text):
                statement = bind(parsed, catalog)
                catalog = _after(statement, catalog, opened)
                outcomes.append({"statement": parsed.sql(), **_outcome(statement, catalog)})
                if not as_json:
                    _show(statement, catalog, in_log=opened is not None)
        except SqlError as error:
            if not as_json:
                _point_at(text, error)
            raise
    if as_json:
        print_json(outcomes)


def _opened(folder: Path, text: str) -> "LocalLog":
    """The log, for writing only where a statement will write: a running writer must not keep readers out."""
    need_node()
    from slackwater.log import LocalLog
    from slackwater.sql import parse_all

    writes = any(_changes_tables(parsed.tree.key) for parsed in parse_all(text))
    return LocalLog(folder, read_only=not writes)


def _changes_tables(kind: str) -> bool:
    return kind in ("create", "dropnamed")


def _after(statement: Statement, catalog: "Catalog", log: "LocalLog | None") -> "Catalog":
    """Return the tables after a statement; they are made and dropped in the log, if there is one."""
    match statement:
        case CreateTable(schema, if_not_exists):
            if catalog.table(schema.name) is not None and if_not_exists:
                return catalog
            if log is not None:
                from slackwater.log import TableDefined

                log.append([TableDefined(schema)])
            return replace(catalog, tables=(*catalog.tables, schema))
        case CreateSource():
            return replace(catalog, sources=(*catalog.sources, statement))
        case Subscribe(_, name) if name is not None:
            return replace(catalog, subscriptions=(*catalog.subscriptions, str(name)))
        case Drop(what, name):
            return _without(catalog, what, name, log)
        case _:
            return catalog


def _without(catalog: "Catalog", what: Catalogued, name: str, log: "LocalLog | None") -> "Catalog":
    if name not in catalog.names(what):
        return catalog
    match what:
        case Catalogued.TABLE:
            if log is not None:
                from slackwater.log import TableDropped

                log.append([TableDropped(name)])
            return replace(catalog, tables=tuple(one for one in catalog.tables if one.name != name))
        case Catalogued.SOURCE:
            return replace(catalog, sources=tuple(one for one in catalog.sources if one.name != name))
        case Catalogued.SUBSCRIPTION:
            return replace(catalog, subscriptions=tuple(one for one in catalog.subscriptions if one != name))


def _outcome(statement: Statement, catalog: "Catalog") -> dict[str, Any]:
    from slackwater.sql import explain

    match statement:
        case Show(Catalogued.TABLE):
            return {"tables": [explain(CreateTable(one)).plain()["details"] for one in catalog.tables]}
        case Show(Catalogued.SOURCE):
            return {"sources": [explain(one).plain()["details"] for one in catalog.sources]}
        case Show(Catalogued.SUBSCRIPTION):
            return {"subscriptions": list(catalog.subscriptions)}
        case _:
            return {"meaning": explain(statement).plain()}


def _show(statement: Statement, catalog: "Catalog", *, in_log: bool) -> None:
    from slackwater.sql import explain, to_sql

    match statement:
        case Show(what):
            names = catalog.names(what)
            if not names:
                console.print(f"there are no {what.value.lower()}s")
            elif what is Catalogued.TABLE:
                for one in catalog.tables:
                    console.print(plain(to_sql(CreateTable(one), catalog)), soft_wrap=True)
            else:
                listed = table("", what.value.lower())
                for name in names:
                    listed.add_row(plain(name))
                console.print(listed)
        case CreateTable(schema) if in_log:
            console.print(f"table {plain(schema.name)} is in the log")
        case Drop(what, name) if in_log and what is Catalogued.TABLE:
            console.print(f"table {plain(name)} is dropped")
        case _:
            console.print(plain(explain(statement).text()), soft_wrap=True)


def _point_at(text: str, error: SqlError) -> None:
    """Show the line with a mark under the place."""
    lines = text.splitlines()
    if not 1 <= error.line <= len(lines) or len(lines[error.line - 1]) > 500:
        return
    line = lines[error.line - 1].replace("\t", " ")
    errors.print(plain(line), soft_wrap=True)
    errors.print(" " * (error.column - 1) + "[bold red]^[/]", soft_wrap=True)
