"""Required rows of a one-shot query: the region that a cache must hold, or fetch, before it can answer.

A condition that cannot be a region is passed over where it stands beside others (AND), so what is found is never too
little; the query itself is still evaluated over it. Where a query reads more than one table, or one of them twice, all
rows are needed.
"""

from dataclasses import dataclass

from sqlglot import exp

from slackwater.core.bound import EXACT
from slackwater.core.errors import AlgebraError, SqlError
from slackwater.core.query import Aggregate, OneShot
from slackwater.core.region import EVERYTHING, Region
from slackwater.core.statement import Select
from slackwater.kinds.aggregate.binder import aggregate
from slackwater.sql.bind import bind
from slackwater.sql.catalog import Catalog
from slackwater.sql.condition import Condition, Names
from slackwater.sql.parse import ParsedStatement, parse
from slackwater.sql.shape import plain_select
from slackwater.sql.tables import from_table, refuse_other_parts

_GATHERING = (
    exp.AggFunc,
    exp.Group,
    exp.Having,
    exp.Distinct,
    exp.Limit,
    exp.Offset,
    exp.Window,
    exp.Fetch,
    exp.Qualify,
)


@dataclass(frozen=True, slots=True)
class Needed:
    """A query and the rows it needs of each table it reads.

    `rowwise`: the answer has a row for each row needed, or for some; nothing is gathered. `aggregate`: the answer is
    this one number, exactly, under the name `shown`.
    """

    query: OneShot
    region: Region
    rowwise: bool
    aggregate: Aggregate | None = None
    shown: str = ""


def needed(parsed: ParsedStatement, catalog: Catalog) -> Needed | None:
    """Required rows of a SELECT; None for other statements.

    >>> from slackwater.core import Column, DataType, TableSchema
    >>> cars = TableSchema("cars", (Column("id", DataType.BIGINT, False), Column("price", DataType.DOUBLE)), ("id",))
    >>> found = needed(parse("SELECT id FROM cars WHERE price < 9 AND id % 2 = 0 ORDER BY id"), Catalog((cars,)))
    >>> str(found.region), found.rowwise
    ('(price in (-∞, 9.0))', True)
    """
    statement = bind(parsed, catalog)
    if not isinstance(statement, Select):
        return None
    query, select = statement.query, plain_select(parsed.tree)
    rowwise = not any(True for _ in parsed.tree.find_all(*_GATHERING))
    if select is None or select.args.get("joins") or sum(1 for _ in parsed.tree.find_all(exp.Table)) != 1:
        return Needed(query, EVERYTHING, rowwise)
    try:
        table, names = from_table(select, catalog, parsed.text)
    except SqlError:
        return Needed(query, EVERYTHING, rowwise)
    clause = select.args.get("where")
    region = EVERYTHING if clause is None else _rows(clause.this, names)
    if rowwise or len(select.expressions) != 1:
        return Needed(query, region, rowwise)
    try:
        refuse_other_parts(select, {"expressions", "from_", "where"}, parsed.text)
        exact = EVERYTHING if clause is None else Condition(names).region(clause.this)
        number = aggregate(select, table, names, EXACT, exact, parsed.text)
    except SqlError:
        return Needed(query, region, rowwise)
    return Needed(query, exact, rowwise, number, _name(query))


def _rows(condition: exp.Expr, names: Names) -> Region:
    """The region of a condition, or of what of it can be one."""
    region = EVERYTHING
    parts = list(condition.flatten()) if isinstance(condition, exp.And) else [condition]
    for part in parts:
        try:
            region = region.intersect(Condition(names).region(part))
        except (SqlError, AlgebraError):
            continue
    return region


def _name(query: OneShot) -> str:
    """Name of the answer's only column, as in the normal form."""
    select = plain_select(parse(query.text).tree)
    assert select is not None
    return str(select.expressions[0].alias_or_name)
