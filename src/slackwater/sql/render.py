"""Unparser: a statement of `core` → SQL text that binds to it.

Texts are made as syntax trees and written by the dialect, so names and strings are quoted as they must be.
"""

from sqlglot import exp

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
from slackwater.core.types import Scalar
from slackwater.kinds.registry import kind_of
from slackwater.sql import nodes
from slackwater.sql.catalog import Catalog
from slackwater.sql.durations import write_duration
from slackwater.sql.parse import parse, write
from slackwater.sql.syntax import literal_node, name_node


def to_sql(statement: Statement, catalog: Catalog) -> str:
    """Write a statement as text; the catalog says which columns hold timestamps.

    >>> from slackwater.core import Column, DataType, Selection, TableSchema
    >>> cars = TableSchema("cars", (Column("id", DataType.BIGINT, nullable=False),), ("id",))
    >>> to_sql(Subscribe(Selection("cars", ("id",))), Catalog((cars,)))
    'SUBSCRIBE SELECT "id" FROM "cars"'
    """
    return write(_statement(statement, catalog))


def _statement(statement: Statement, catalog: Catalog) -> exp.Expr:
    match statement:
        case CreateTable():
            return _create_table(statement)
        case CreateSource():
            return _create_source(statement)
        case Subscribe(query, name):
            tree = kind_of(query).syntax(query, catalog)
            tree.set("alias", name_node(name) if name is not None else None)
            return tree
        case Select(query):
            return parse(query.text).tree
        case Show(what):
            return nodes.ShowNamed(kind=what.value)
        case Drop(what, name, if_exists):
            return nodes.DropNamed(kind=what.value, this=name_node(name), exists=if_exists)
        case Explain(inner):
            return nodes.ExplainOf(this=_statement(inner, catalog))


def _create_table(statement: CreateTable) -> exp.Expr:
    schema = statement.schema
    columns: list[exp.Expr] = []
    for column in schema.columns:
        constraints = [] if column.nullable else [exp.ColumnConstraint(kind=exp.NotNullColumnConstraint())]
        kind = exp.DataType(this=exp.DType(column.type.value))
        columns.append(exp.ColumnDef(this=name_node(column.name), kind=kind, constraints=constraints))
    columns.append(exp.PrimaryKey(expressions=[name_node(name) for name in schema.key]))
    properties = None
    if schema.event_time is not None:
        properties = exp.Properties(expressions=[nodes.EventTime(this=name_node(schema.event_time))])
    return exp.Create(
        this=exp.Schema(this=exp.Table(this=name_node(schema.name)), expressions=columns),
        kind="TABLE",
        exists=statement.if_not_exists,
        properties=properties,
    )


def _create_source(statement: CreateSource) -> exp.Expr:
    settings: list[tuple[str, Scalar]] = []
    if statement.every is not None:
        settings.append(("every", write_duration(statement.every)))
    settings += [(option.name, option.value) for option in statement.options]
    return nodes.CreateSource(
        this=name_node(statement.name),
        table=name_node(statement.table),
        kind=statement.kind.value,
        address=exp.Literal.string(statement.address),
        expressions=[nodes.Option(this=name_node(name), expression=literal_node(value)) for name, value in settings],
    )
