"""Syntax-tree builders: nodes for names, constants and regions.

Texts are made as trees and written by the dialect, so names and strings are quoted as they must be.
"""

from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta

from sqlglot import exp

from slackwater.core.errors import NotSupported
from slackwater.core.extent import Categories, Extent, Interval, Missing
from slackwater.core.region import EVERYTHING, Region
from slackwater.core.schema import TableSchema
from slackwater.core.types import DataType, Instant, Scalar, instant
from slackwater.sql.catalog import Catalog

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_FIRST = instant(datetime.min.replace(tzinfo=UTC))
_LAST = instant(datetime.max.replace(tzinfo=UTC))


def name_node(name: str) -> exp.Identifier:
    """A name, quoted."""
    return exp.Identifier(this=name, quoted=True)


def column_node(name: str) -> exp.Column:
    """A column by its name."""
    return exp.Column(this=name_node(name))


def literal_node(value: Scalar) -> exp.Expr:
    """A constant."""
    match value:
        case bool():
            return exp.Boolean(this=value)
        case str():
            return exp.Literal.string(value)
        case _:
            number = exp.Literal(this=repr(abs(value)), is_string=False)
            return exp.Neg(this=number) if value < 0 else number


def table_schema(name: str, catalog: Catalog) -> TableSchema:
    """The definition of a table that a query reads."""
    table = catalog.table(name)
    if table is None:
        raise NotSupported(f"a query of table {name} cannot be written without the table's definition")
    return table


def qualified(name: str, node: exp.Expr) -> exp.Expr:
    """The same with its columns called by what their table is called."""
    for column in node.find_all(exp.Column):
        column.set("table", name_node(name))
    return node


def where_node(region: Region, table: TableSchema) -> exp.Where | None:
    """A WHERE that means a region; None where that is everything."""
    return None if region == EVERYTHING else exp.Where(this=condition_node(region, table))


def condition_node(region: Region, table: TableSchema) -> exp.Expr:
    """A condition that means a region."""
    if region.empty:
        return exp.Boolean(this=False)
    boxes = []
    for box in region:
        sides = [_side(side.column, side.extent, table) for side in box.sides]
        boxes.append(chain(sides, exp.And) if sides else exp.Boolean(this=True))
    return chain([exp.Paren(this=box) for box in boxes] if len(boxes) > 1 else boxes, exp.Or)


def chain(parts: list[exp.Expr], connector: Callable[..., exp.Expr]) -> exp.Expr:
    """Parts with a connector between them."""
    chained = parts[0]
    for part in parts[1:]:
        chained = connector(this=chained, expression=part)
    return chained


def _side(name: str, extent: Extent, table: TableSchema) -> exp.Expr:
    kind = table.column(name).type
    null = exp.Is(this=column_node(name), expression=exp.Null())
    match extent:
        case Missing():
            return null
        case Categories(values, complement):
            if not values:
                return exp.Not(this=null) if complement else exp.Boolean(this=False)
            listed = exp.In(this=column_node(name), expressions=[value_node(each, kind) for each in _sorted(values)])
            return exp.Not(this=listed) if complement else listed
        case Interval():
            ends = interval_nodes(column_node(name), extent, kind)
            return chain(ends, exp.And) if ends else exp.Not(this=null)


def _sorted(values: Iterable[Scalar]) -> list[Scalar]:
    return sorted(values, key=lambda value: (str(type(value)), value))


def interval_nodes(this: exp.Expr, interval: Interval, kind: DataType) -> list[exp.Expr]:
    """The comparisons that say that something lies in an interval."""
    low, high = interval.low, interval.high
    if low is not None and low == high:
        return [exp.EQ(this=this.copy(), expression=value_node(low, kind))]
    ends: list[exp.Expr] = []
    if low is not None:
        above = exp.GT if interval.low_open else exp.GTE
        if kind is DataType.TIMESTAMP and isinstance(low, int) and low > _LAST:
            above, low = exp.GT, low - 1  # the moment after the last that can be written
        ends.append(above(this=this.copy(), expression=value_node(low, kind)))
    if high is not None:
        below = exp.LT if interval.high_open else exp.LTE
        if kind is DataType.TIMESTAMP and isinstance(high, int) and high < _FIRST:
            below, high = exp.LT, high + 1
        ends.append(below(this=this.copy(), expression=value_node(high, kind)))
    return ends


def value_node(value: Scalar, kind: DataType) -> exp.Expr:
    """A constant of this type."""
    if kind is not DataType.TIMESTAMP or not isinstance(value, int):
        return literal_node(value)
    if not _FIRST <= value <= _LAST:
        raise NotSupported(f"the moment {value} µs lies outside the years 1 to 9999 and cannot be written")
    when = _EPOCH + timedelta(microseconds=Instant(value))
    return exp.Cast(this=exp.Literal.string(when.isoformat(sep=" ")), to=exp.DataType(this=exp.DType.TIMESTAMP))
