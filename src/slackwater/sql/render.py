"""The other way: from a statement of `core` back to SQL text that binds to it.

Texts are made as syntax trees and written by the dialect, so names and strings are quoted as they must be.
"""

from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta

from sqlglot import exp

from slackwater.core.bound import EXACT
from slackwater.core.errors import NotSupported
from slackwater.core.extent import Categories, Extent, Interval, Missing
from slackwater.core.joined import called
from slackwater.core.query import Aggregate, Join, Selection
from slackwater.core.region import EVERYTHING, Region
from slackwater.core.schema import TableSchema
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
from slackwater.core.types import DataType, Instant, Scalar, instant
from slackwater.sql import nodes
from slackwater.sql.catalog import Catalog
from slackwater.sql.durations import write_duration
from slackwater.sql.parse import parse, write

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_FIRST = instant(datetime.min.replace(tzinfo=UTC))
_LAST = instant(datetime.max.replace(tzinfo=UTC))


def to_sql(statement: Statement, catalog: Catalog) -> str:
    """Write a statement as text; the catalog says which columns hold timestamps.

    >>> from slackwater.core import Column
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
            bound = query.bound if isinstance(query, Aggregate) else EXACT
            return nodes.Subscribe(
                this=_join(query, catalog) if isinstance(query, Join) else _query(query, _table(query.table, catalog)),
                alias=_name(name) if name is not None else None,
                within=nodes.Within(this=_literal(bound.within)) if bound != EXACT else None,
                fidelity=nodes.Fidelity(this=_literal(bound.fidelity)) if not bound.always else None,
            )
        case Select(query):
            return parse(query.text).tree
        case Show(what):
            return nodes.ShowNamed(kind=what.value)
        case Drop(what, name, if_exists):
            return nodes.DropNamed(kind=what.value, this=_name(name), exists=if_exists)
        case Explain(inner):
            return nodes.ExplainOf(this=_statement(inner, catalog))


def _name(name: str) -> exp.Identifier:
    return exp.Identifier(this=name, quoted=True)


def _column(name: str) -> exp.Column:
    return exp.Column(this=_name(name))


def _literal(value: Scalar) -> exp.Expr:
    match value:
        case bool():
            return exp.Boolean(this=value)
        case str():
            return exp.Literal.string(value)
        case _:
            number = exp.Literal(this=repr(abs(value)), is_string=False)
            return exp.Neg(this=number) if value < 0 else number


def _create_table(statement: CreateTable) -> exp.Expr:
    schema = statement.schema
    columns: list[exp.Expr] = []
    for column in schema.columns:
        constraints = [] if column.nullable else [exp.ColumnConstraint(kind=exp.NotNullColumnConstraint())]
        kind = exp.DataType(this=exp.DType(column.type.value))
        columns.append(exp.ColumnDef(this=_name(column.name), kind=kind, constraints=constraints))
    columns.append(exp.PrimaryKey(expressions=[_name(name) for name in schema.key]))
    properties = None
    if schema.event_time is not None:
        properties = exp.Properties(expressions=[nodes.EventTime(this=_name(schema.event_time))])
    return exp.Create(
        this=exp.Schema(this=exp.Table(this=_name(schema.name)), expressions=columns),
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
        this=_name(statement.name),
        table=_name(statement.table),
        kind=statement.kind.value,
        address=exp.Literal.string(statement.address),
        expressions=[nodes.Option(this=_name(name), expression=_literal(value)) for name, value in settings],
    )


def _table(name: str, catalog: Catalog) -> TableSchema:
    table = catalog.table(name)
    if table is None:
        raise NotSupported(f"a query of table {name} cannot be written without the table's definition")
    return table


def _query(query: Selection | Aggregate, table: TableSchema) -> exp.Select:
    joins: list[exp.Expr] = []
    if isinstance(query, Selection):
        expressions: list[exp.Expr] = [_column(name) for name in query.columns]
    else:
        weight = _weight_name(table) if query.weights is not None and _weighted(query) else None
        expressions = [_aggregate(query, weight)]
        joins = [_weights(query, table, weight)] if query.weights is not None else []
    where = None if query.region == EVERYTHING else exp.Where(this=_condition(query.region, table))
    return exp.Select(
        expressions=expressions,
        from_=exp.From(this=exp.Table(this=_name(query.table))),
        joins=joins,
        where=where,
    )


def _join(query: Join, catalog: Catalog) -> exp.Select:
    left, right = _table(query.left, catalog), _table(query.right, catalog)
    names = called(left.name, right.name)
    expressions: list[exp.Expr] = []
    for shown in query.columns:
        own = names[0] if shown.startswith(names[0] + ".") else names[1]
        expressions.append(_of(own, _column(shown.removeprefix(own + "."))))
    first, second = _of(names[0], _column(query.left_column)), _of(names[1], _column(query.right_column))
    if query.band is None:
        on: exp.Expr = exp.EQ(this=first, expression=second)
    else:
        difference = exp.Sub(this=second, expression=first)
        on = _chain(_ends(difference, query.band, DataType.DOUBLE), exp.And)
    conditions = [
        _of(name, _condition(region, table))
        for name, table, region in ((names[0], left, query.left_region), (names[1], right, query.right_region))
        if region != EVERYTHING
    ]
    alias = None if names[1] == right.name else exp.TableAlias(this=_name(names[1]))
    return exp.Select(
        expressions=expressions,
        from_=exp.From(this=exp.Table(this=_name(left.name))),
        joins=[exp.Join(this=exp.Table(this=_name(right.name), alias=alias), on=on)],
        where=exp.Where(this=_chain(conditions, exp.And)) if conditions else None,
    )


def _of(name: str, node: exp.Expr) -> exp.Expr:
    """The same with its columns called by what their table is called."""
    for column in node.find_all(exp.Column):
        column.set("table", _name(name))
    return node


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
    this: exp.Expr = _column(query.column)
    if weight is not None:
        this = exp.Mul(this=_column(weight), expression=this)
    if query.scale != 1.0:
        this = exp.Mul(this=_literal(query.scale), expression=this)
    return function(this=this)


def _weights(query: Aggregate, table: TableSchema, weight: str | None) -> exp.Expr:
    if not query.weights:
        raise NotSupported("an aggregate over an empty list of items cannot be written")
    kinds = [table.column(name).type for name in table.key]
    rows = []
    for each in query.weights:
        cells = [_value(part, kind) for part, kind in zip(each.key, kinds, strict=True)]
        rows.append(exp.Tuple(expressions=[*cells, *([_literal(each.factor)] if weight is not None else [])]))
    columns = [_name(name) for name in (*table.key, *([weight] if weight is not None else []))]
    listed = exp.Values(expressions=rows, alias=exp.TableAlias(this=_name("p"), columns=columns))
    return exp.Join(this=listed, using=[_name(name) for name in table.key])


# ---- regions ------------------------------------------------------------------------------------------------


def _condition(region: Region, table: TableSchema) -> exp.Expr:
    if region.empty:
        return exp.Boolean(this=False)
    boxes = []
    for box in region:
        sides = [_side(side.column, side.extent, table) for side in box.sides]
        boxes.append(_chain(sides, exp.And) if sides else exp.Boolean(this=True))
    return _chain([exp.Paren(this=box) for box in boxes] if len(boxes) > 1 else boxes, exp.Or)


def _chain(parts: list[exp.Expr], connector: Callable[..., exp.Expr]) -> exp.Expr:
    chained = parts[0]
    for part in parts[1:]:
        chained = connector(this=chained, expression=part)
    return chained


def _side(name: str, extent: Extent, table: TableSchema) -> exp.Expr:
    kind = table.column(name).type
    null = exp.Is(this=_column(name), expression=exp.Null())
    match extent:
        case Missing():
            return null
        case Categories(values, complement):
            if not values:
                return exp.Not(this=null) if complement else exp.Boolean(this=False)
            listed = exp.In(this=_column(name), expressions=[_value(each, kind) for each in _sorted(values)])
            return exp.Not(this=listed) if complement else listed
        case Interval():
            ends = _ends(_column(name), extent, kind)
            return _chain(ends, exp.And) if ends else exp.Not(this=null)


def _sorted(values: Iterable[Scalar]) -> list[Scalar]:
    return sorted(values, key=lambda value: (str(type(value)), value))


def _ends(this: exp.Expr, interval: Interval, kind: DataType) -> list[exp.Expr]:
    low, high = interval.low, interval.high
    if low is not None and low == high:
        return [exp.EQ(this=this.copy(), expression=_value(low, kind))]
    ends: list[exp.Expr] = []
    if low is not None:
        above = exp.GT if interval.low_open else exp.GTE
        if kind is DataType.TIMESTAMP and isinstance(low, int) and low > _LAST:
            above, low = exp.GT, low - 1  # the moment after the last that can be written
        ends.append(above(this=this.copy(), expression=_value(low, kind)))
    if high is not None:
        below = exp.LT if interval.high_open else exp.LTE
        if kind is DataType.TIMESTAMP and isinstance(high, int) and high < _FIRST:
            below, high = exp.LT, high + 1
        ends.append(below(this=this.copy(), expression=_value(high, kind)))
    return ends


def _value(value: Scalar, kind: DataType) -> exp.Expr:
    if kind is not DataType.TIMESTAMP or not isinstance(value, int):
        return _literal(value)
    if not _FIRST <= value <= _LAST:
        raise NotSupported(f"the moment {value} µs lies outside the years 1 to 9999 and cannot be written")
    when = _EPOCH + timedelta(microseconds=Instant(value))
    return exp.Cast(this=exp.Literal.string(when.isoformat(sep=" ")), to=exp.DataType(this=exp.DType.TIMESTAMP))
