"""Unparser of joins: query → syntax tree."""

from sqlglot import exp

from slackwater.core.query import Join
from slackwater.core.region import EVERYTHING
from slackwater.core.types import DataType
from slackwater.kinds.join.schema import called
from slackwater.sql.catalog import Catalog
from slackwater.sql.syntax import chain, column_node, condition_node, interval_nodes, name_node, qualified, table_schema


def join_select(query: Join, catalog: Catalog) -> exp.Select:
    """SELECT columns FROM left JOIN right ON condition WHERE regions."""
    left, right = table_schema(query.left, catalog), table_schema(query.right, catalog)
    names = called(left.name, right.name)
    expressions: list[exp.Expr] = []
    for shown in query.columns:
        own = names[0] if shown.startswith(names[0] + ".") else names[1]
        expressions.append(qualified(own, column_node(shown.removeprefix(own + "."))))
    first, second = (
        qualified(names[0], column_node(query.left_column)),
        qualified(names[1], column_node(query.right_column)),
    )
    if query.band is None:
        on: exp.Expr = exp.EQ(this=first, expression=second)
    else:
        difference = exp.Sub(this=second, expression=first)
        on = chain(interval_nodes(difference, query.band, DataType.DOUBLE), exp.And)
    conditions = [
        qualified(name, condition_node(region, table))
        for name, table, region in ((names[0], left, query.left_region), (names[1], right, query.right_region))
        if region != EVERYTHING
    ]
    alias = None if names[1] == right.name else exp.TableAlias(this=name_node(names[1]))
    return exp.Select(
        expressions=expressions,
        from_=exp.From(this=exp.Table(this=name_node(left.name))),
        joins=[exp.Join(this=exp.Table(this=name_node(right.name), alias=alias), on=on)],
        where=exp.Where(this=chain(conditions, exp.And)) if conditions else None,
    )
