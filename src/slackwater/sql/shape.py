"""Shape of a syntax tree: the structural facts by which query kinds are classified, without name resolution."""

from collections.abc import Iterator

from sqlglot import exp

from slackwater.sql import nodes


def plain_select(tree: exp.Expr) -> exp.Select | None:
    """The SELECT of a subscription or query, out of brackets that hold nothing else."""
    query = tree.this if isinstance(tree, nodes.Subscribe) else tree
    while isinstance(query, exp.Subquery) and [part for part, value in query.args.items() if value] == ["this"]:
        query = query.this
    return query if isinstance(query, exp.Select) else None


def table_joins(tree: exp.Expr) -> Iterator[exp.Join]:
    """The joins with something else than a list of values."""
    select = plain_select(tree)
    for join in (select.args.get("joins") or ()) if select is not None else ():
        if not isinstance(join.this, exp.Values):
            yield join


def has_aggregates(tree: exp.Expr) -> bool:
    """True if the SELECT list has an aggregate function."""
    select = plain_select(tree)
    return select is not None and any(
        found.find_ancestor(exp.Select) is select
        for projection in select.expressions
        for found in projection.find_all(exp.AggFunc)
    )
