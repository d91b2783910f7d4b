"""Binder of aggregates: SELECT SUM(…) and its like → function, column, scale and weights.

Weights come as a list beside the table: `JOIN (VALUES ('IBM', 4234), …) AS p(symbol, w) USING (symbol)`. The list
must have the key of the table, so that it says for each row how often it counts; a key that is listed twice counts
for the sum of its weights in a SUM, as the join means, and is refused elsewhere.
"""

import math
from dataclasses import dataclass

from sqlglot import exp

from slackwater.core.bound import Bound
from slackwater.core.errors import NotSupported
from slackwater.core.query import Aggregate, AggregateFunction, Weight
from slackwater.core.region import Region
from slackwater.core.schema import TableSchema
from slackwater.core.types import DataType, Key, Scalar
from slackwater.sql.catalog import spelled, unknown
from slackwater.sql.condition import Names
from slackwater.sql.constants import coerce, fold, plain_literal, to_float
from slackwater.sql.place import Text
from slackwater.sql.tables import refuse_other_parts

_FUNCTIONS: dict[type[exp.Expr], AggregateFunction] = {
    exp.Sum: AggregateFunction.SUM,
    exp.Avg: AggregateFunction.AVG,
    exp.Count: AggregateFunction.COUNT,
    exp.Min: AggregateFunction.MIN,
    exp.Max: AggregateFunction.MAX,
}
_ADVICE = "write SUM, AVG, MIN or MAX of one column, which a number or a weight may multiply, or COUNT"


@dataclass(frozen=True, slots=True)
class _Product:
    """Argument of the aggregate function: a product of constants, at most one column and at most one weight."""

    scale: float = 1.0
    column: str | None = None
    weight: exp.Column | None = None


@dataclass(frozen=True, slots=True)
class _Listed:
    """The list of weights: names of its columns in order, and its rows."""

    name: str
    columns: tuple[str, ...]
    using: tuple[str, ...]
    rows: tuple[exp.Expr, ...]
    node: exp.Expr

    def has(self, column: exp.Column) -> bool:
        """True if this column is one of the list's own, not the one that joins it."""
        if column.table:
            return column.table.lower() == self.name.lower()
        return spelled(column.name, self.columns) is not None and spelled(column.name, self.using) is None


def aggregate(
    select: exp.Select, table: TableSchema, names: Names, bound: Bound, region: Region, text: Text
) -> Aggregate:
    """Bind a query that is known to be an aggregate."""
    refuse_other_parts(select, {"expressions", "from_", "where", "joins"}, text)
    if len(select.expressions) != 1:
        text.refuse("a standing aggregate is one number; subscribe to each aggregate by itself", select.expressions[1])
    node = select.expressions[0].unalias()
    function = _FUNCTIONS.get(type(node))
    if isinstance(node, exp.Filter):
        text.refuse("FILTER is not possible in a standing query; write its condition after WHERE", node)
    if function is None:
        text.refuse(f"this aggregate cannot stand; {_ADVICE}", node)
    if isinstance(node.this, exp.Star) and any(node.this.args.values()):
        text.refuse("* takes no EXCEPT or REPLACE in a standing query; write COUNT(*)", node)
    if isinstance(node.this, exp.Distinct):
        text.refuse(f"{function.value}(DISTINCT …) cannot stand; leave DISTINCT out", node)
    if any(value for part, value in node.args.items() if part not in ("this", "big_int")):
        text.refuse(f"{function.value} takes one argument; {_ADVICE}", node)
    joins = select.args.get("joins")
    listed = _listed(joins, table, text) if joins else None
    product = _product(node.this, names, listed, text) if not isinstance(node.this, exp.Star) else _Product()
    _check(function, product, node, table, text)
    weights = None if listed is None else _weights(listed, product.weight, function, table, text)
    return Aggregate(table.name, function, product.column, bound, region, weights, product.scale)


def _check(function: AggregateFunction, product: _Product, node: exp.Expr, table: TableSchema, text: Text) -> None:
    counts = function is AggregateFunction.COUNT
    if counts and (product.scale != 1.0 or product.weight is not None):
        text.refuse("COUNT counts rows; write COUNT(*) or COUNT(column)", node)
    if product.column is None:
        if not counts or not isinstance(node.this, exp.Star):
            text.refuse(f"{function.value} needs a column of table {table.name}; {_ADVICE}", node)
        return
    kind = table.column(product.column).type
    if not counts and not kind.numeric:
        text.fail(f"{function.value} needs numbers and column {product.column} is {kind.value}", node)
    if function is AggregateFunction.AVG and product.weight is not None:
        text.refuse("AVG takes no weights; write SUM(w * column) with weights that add up to 1", node)


def _product(node: exp.Expr, names: Names, listed: _Listed | None, text: Text) -> _Product:
    constant = fold(node, text)
    if constant is not None:
        if isinstance(constant.value, bool) or not isinstance(constant.value, int | float) or constant.moment:
            text.fail(f"expected a number here, this is {constant.described}", node)
        return _Product(to_float(constant.value, node, text))
    match node:
        case exp.Paren():
            return _product(node.this, names, listed, text)
        case exp.Neg():
            inner = _product(node.this, names, listed, text)
            return _Product(-inner.scale, inner.column, inner.weight)
        case exp.Column() if not isinstance(node.this, exp.Star):
            if listed is not None and listed.has(node):
                return _Product(weight=node)
            return _Product(column=names.column(node).name)
        case exp.Mul():
            left, right = (_product(side, names, listed, text) for side in (node.left, node.right))
            if not (left.column and right.column) and not (left.weight and right.weight):
                scale = to_float(left.scale * right.scale, node, text)
                return _Product(scale, left.column or right.column, left.weight or right.weight)
        case exp.Div():
            left, right = (_product(side, names, listed, text) for side in (node.left, node.right))
            if right.column is None and right.weight is None:
                if right.scale == 0:
                    text.fail("this divides by zero", node)
                return _Product(to_float(left.scale / right.scale, node, text), left.column, left.weight)
    raise text.error(f"this cannot stand inside an aggregate; {_ADVICE}", node, NotSupported)


def _listed(joins: list[exp.Join], table: TableSchema, text: Text) -> _Listed:
    example = f"JOIN (VALUES (…)) AS p({', '.join(table.key)}, w) USING ({', '.join(table.key)})"
    join = joins[0]
    if len(joins) > 1:
        text.refuse(f"one list of weights is the most; put all of them into one {example}", joins[1])
    values = join.this
    assert isinstance(values, exp.Values)
    alias = values.args.get("alias") or exp.TableAlias()
    columns = tuple(column.name for column in alias.args.get("columns") or ())
    plain = {part for part, value in join.args.items() if value} <= {"this", "using", "kind"}
    if not plain or join.kind not in ("", "INNER") or not join.args.get("using") or not columns:
        text.refuse(f"weights are joined as in {example}", join)
    if len({column.lower() for column in columns}) != len(columns):
        text.fail("two columns of the list have the same name", alias)
    using = []
    for identifier in join.args["using"]:
        name = spelled(identifier.name, table.key)
        if name is None or spelled(name, columns) is None:
            text.fail(f"weights are joined by the key of table {table.name}; write {example}", identifier)
        using.append(name)
    if sorted(using) != sorted(table.key):
        text.fail(f"the key of table {table.name} is {', '.join(table.key)}; write {example}", join.args["using"][0])
    return _Listed(alias.name, columns, tuple(using), tuple(values.expressions), values)


def _weights(
    listed: _Listed, column: exp.Column | None, function: AggregateFunction, table: TableSchema, text: Text
) -> tuple[Weight, ...]:
    factor_at = None
    if column is not None:
        name = spelled(column.name, listed.columns)
        if name is None or spelled(name, listed.using) is not None:
            text.fail(unknown("weight", column.name, set(listed.columns) - set(listed.using)), column)
        factor_at = listed.columns.index(name)
    factors: dict[Key, list[float]] = {}
    keys = [(_index(listed, name), table.column(name).type, name) for name in table.key]
    for row in listed.rows:
        cells = row.expressions if isinstance(row, exp.Tuple) else [row]
        if len(cells) != len(listed.columns):
            text.fail(f"this row has {len(cells)} values for {len(listed.columns)} columns", row)
        key = tuple([_cell(cells[at], kind, name, text) for at, kind, name in keys])
        factor = 1.0 if factor_at is None else _cell(cells[factor_at], DataType.DOUBLE, "the weight", text)
        assert isinstance(factor, float)
        if key in factors and function is not AggregateFunction.SUM:
            text.fail(f"{', '.join(map(str, key))} is listed twice, which only SUM can count", row)
        factors.setdefault(key, []).append(factor)
    return tuple(Weight(key, _total(factors[key], listed.node, text)) for key in sorted(factors))


def _total(factors: list[float], node: exp.Expr, text: Text) -> float:
    if len(factors) == 1:
        return factors[0]
    try:
        # Exact before it is rounded: the order of the list does not matter.
        return to_float(math.fsum(factors), node, text)
    except OverflowError:
        return to_float(math.inf, node, text)


def _index(listed: _Listed, name: str) -> int:
    return next(at for at, column in enumerate(listed.columns) if column.lower() == name.lower())


def _cell(node: exp.Expr, kind: DataType, what: str, text: Text) -> Scalar:
    plain = plain_literal(node, kind)
    if plain is not None:
        return plain
    constant = fold(node, text)
    if constant is None:
        text.refuse(f"{what} must be a constant", node)
    if constant.value is None:
        text.fail(f"{what} must not be NULL", node)
    value = coerce(constant, kind, node, text, what)
    if kind is DataType.BIGINT:
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if not kind.holds(value):
            text.fail(f"{what} is BIGINT and cannot be {constant.described}", node)
    return value
