"""What kind of standing query a statement is: an ordered tuple of rules, the first that answers decides.

A rule is a pure function from the syntax tree to a kind or None. Names are not looked up here: kinds differ in
shape. What each kind becomes: `standing`; examples for each rule, before and after: `tests/sql/fixtures`.
"""

from collections.abc import Callable, Iterator
from enum import Enum
from typing import TypeAlias

from sqlglot import exp

from slackwater.sql import nodes


class Kind(Enum):
    """The kinds of standing query."""

    MATERIALIZED_VIEW = "materialised view"
    PERIODIC = "periodic query"
    MEMORY_JOIN = "join in limited memory"
    JOIN_AGGREGATE = "aggregate of a join"
    BAND_JOIN = "band join"
    SELECT_JOIN = "select-join"
    AGGREGATE = "aggregate"
    SELECTION = "selection"


Rule: TypeAlias = Callable[[exp.Expr], Kind | None]

_INEQUALITIES = (exp.Between, exp.LT, exp.LTE, exp.GT, exp.GTE)


def materialized_view(tree: exp.Expr) -> Kind | None:
    """`CREATE MATERIALIZED VIEW …`."""
    return Kind.MATERIALIZED_VIEW if isinstance(tree, exp.Create) and tree.kind == "VIEW" else None


def periodic(tree: exp.Expr) -> Kind | None:
    """`… EVERY 1 HOUR`."""
    return Kind.PERIODIC if tree.args.get("every") else None


def memory_join(tree: exp.Expr) -> Kind | None:
    """`… MEMORY 10000 ROWS`."""
    return Kind.MEMORY_JOIN if tree.args.get("memory") else None


def join_aggregate(tree: exp.Expr) -> Kind | None:
    """An aggregate over two tables or more."""
    return Kind.JOIN_AGGREGATE if any(_table_joins(tree)) and _aggregates(tree) else None


def band_join(tree: exp.Expr) -> Kind | None:
    """Two tables joined ON an inequality, such as a difference in a range."""
    joins = list(_table_joins(tree))
    banded = len(joins) == 1 and joins[0].args.get("on") and joins[0].args["on"].find(*_INEQUALITIES)
    return Kind.BAND_JOIN if banded else None


def select_join(tree: exp.Expr) -> Kind | None:
    """Tables joined on equality."""
    return Kind.SELECT_JOIN if any(_table_joins(tree)) else None


def aggregate(tree: exp.Expr) -> Kind | None:
    """One table, perhaps with a list of weights, and an aggregate function over it."""
    return Kind.AGGREGATE if _aggregates(tree) else None


def selection(tree: exp.Expr) -> Kind | None:
    """Rows of one table."""
    return Kind.SELECTION if plain_select(tree) is not None else None


RULES: tuple[Rule, ...] = (
    materialized_view,
    periodic,
    memory_join,
    join_aggregate,
    band_join,
    select_join,
    aggregate,
    selection,
)


def classify(tree: exp.Expr) -> Kind | None:
    """The kind of a standing query; None for what no rule knows (UNION, for example)."""
    return next((kind for rule in RULES if (kind := rule(tree)) is not None), None)


def plain_select(tree: exp.Expr) -> exp.Select | None:
    """The SELECT of a subscription or query, out of brackets that hold nothing else."""
    query = tree.this if isinstance(tree, nodes.Subscribe) else tree
    while isinstance(query, exp.Subquery) and [part for part, value in query.args.items() if value] == ["this"]:
        query = query.this
    return query if isinstance(query, exp.Select) else None


def _table_joins(tree: exp.Expr) -> Iterator[exp.Join]:
    """The joins with something else than a list of values."""
    select = plain_select(tree)
    for join in (select.args.get("joins") or ()) if select is not None else ():
        if not isinstance(join.this, exp.Values):
            yield join


def _aggregates(tree: exp.Expr) -> bool:
    """Whether a column asked for is computed from many rows."""
    select = plain_select(tree)
    return select is not None and any(
        found.find_ancestor(exp.Select) is select
        for projection in select.expressions
        for found in projection.find_all(exp.AggFunc)
    )
