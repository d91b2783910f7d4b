"""Unparser of aggregates: query → syntax tree, the weights as a VALUES list beside the table."""

from sqlglot import exp

from slackwater.core.errors import NotSupported
from slackwater.core.query import Aggregate
from slackwater.core.schema import TableSchema
from slackwater.sql.syntax import column_node, literal_node, name_node, value_node, where_node


def aggregate_select(query: Aggregate, table: TableSchema) -> exp.Select:
    """SELECT function FROM table JOIN weights WHERE region."""
    weight = _weight_name(table) if query.weights is not None and _weighted(query) else None
    return exp.Select(
        expressions=[_aggregate(query, weight)],
        from_=exp.From(this=exp.Table(this=name_node(query.table))),
        joins=[_weights(query, table, weight)] if query.weights is not None else [],
        where=where_node(query.region, table),
    )


def _weighted(query: Aggregate) -> bool:
    return any(weight.factor != 1.0 for weight in query.weights or ())


def _weight_name(table: TableSchema) -> str:
    """A name for the weights that no column of the table has."""
    taken = {column.name.lower() for column in table.columns}
    name = "w"
    while name in taken:
        name += "_"
    return name


def _aggregate(query: Aggregate, weight: str | None) -> exp.Expr:
    function = exp.FUNCTION_BY_NAME[query.function.value]
    if query.column is None:
        return function(this=exp.Star())
    this: exp.Expr = column_node(query.column)
    if weight is not None:
        this = exp.Mul(this=column_node(weight), expression=this)
    if query.scale != 1.0:
        this = exp.Mul(this=literal_node(query.scale), expression=this)
    return function(this=this)


def _weights(query: Aggregate, table: TableSchema, weight: str | None) -> exp.Expr:
    if not query.weights:
        raise NotSupported("an aggregate over an empty list of items cannot be written")
    kinds = [table.column(name).type for name in table.key]
    rows = []
    for each in query.weights:
        cells = [value_node(part, kind) for part, kind in zip(each.key, kinds, strict=True)]
        rows.append(exp.Tuple(expressions=[*cells, *([literal_node(each.factor)] if weight is not None else [])]))
    columns = [name_node(name) for name in (*table.key, *([weight] if weight is not None else []))]
    listed = exp.Values(expressions=rows, alias=exp.TableAlias(this=name_node("p"), columns=columns))
    return exp.Join(this=listed, using=[name_node(name) for name in table.key])
