"""EXPLAIN: the bound statement as a tree; each kind of standing query explains its own part."""

from slackwater.core.hosts import HostKind
from slackwater.core.query import OneShot
from slackwater.core.statement import (
    CreateSource,
    CreateTable,
    Drop,
    Explain,
    Select,
    Show,
    Statement,
    Subscribe,
)
from slackwater.kinds.registry import kind_of
from slackwater.sql.durations import write_duration
from slackwater.sql.explain_tree import Detail, ExplainTree


def explain(statement: Statement) -> ExplainTree:
    """Explain a bound statement as a tree.

    >>> from slackwater.core import Catalogued
    >>> explain(Show(Catalogued.TABLE)).text()
    'show tables'
    """
    match statement:
        case Explain(inner):
            return explain(inner)
        case Subscribe(query, name):
            called = (Detail("name", str(name)),) if name is not None else ()
            return ExplainTree("subscription", called, (kind_of(query).explain(query),))
        case Select(query):
            return _one_shot(query)
        case CreateTable():
            return _table(statement)
        case CreateSource():
            return _source(statement)
        case Show(what):
            return ExplainTree(f"show {what.value.lower()}s")
        case Drop(what, name, if_exists):
            return ExplainTree(f"drop {what.value.lower()}", (Detail("name", name), Detail("if exists", if_exists)))


def hosted(host: HostKind) -> ExplainTree:
    """Host of a query, as a detail.

    >>> hosted(HostKind.SPARK).text()
    "host spark\\n  operators: on Spark's executors, by micro-batches"
    """
    where = {
        HostKind.NODE: "in the server, as the log grows",
        HostKind.SPARK: "on Spark's executors, by micro-batches",
        HostKind.NETWORK: "at aggregators, in parts that the client adds up",
    }
    return ExplainTree(f"host {host.value}", (Detail("operators", where[host]),))


def _one_shot(query: OneShot) -> ExplainTree:
    details = (Detail("tables", query.tables), Detail("text", query.text))
    parts = (kind_of(query.selection).explain(query.selection),) if query.selection is not None else ()
    return ExplainTree("one-shot query", details, parts)


def _table(statement: CreateTable) -> ExplainTree:
    schema = statement.schema
    columns = tuple(
        f"{column.name} {column.type.value}{'' if column.nullable else ' NOT NULL'}" for column in schema.columns
    )
    details = (
        Detail("name", schema.name),
        Detail("columns", columns),
        Detail("key", schema.key),
        Detail("event time", schema.event_time),
    )
    return ExplainTree("create table", details)


def _source(statement: CreateSource) -> ExplainTree:
    details = [
        Detail("name", statement.name),
        Detail("table", statement.table),
        Detail("kind", statement.kind.value),
        Detail("address", statement.address),
    ]
    if statement.every is not None:
        details.append(Detail("every", write_duration(statement.every)))
    settings = tuple(Detail(option.name, option.value) for option in statement.options)
    parts = (ExplainTree("settings", settings),) if settings else ()
    return ExplainTree("create source", tuple(details), parts)
