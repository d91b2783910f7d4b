"""Predicate analysis: WHERE of a standing query → the region of rows for which it is true.

Mathematics
    SQL's logic has three values. For a condition p let T(p) be the rows where it is true and F(p) those where it
    is false; a row in neither has a null that matters. Then
        T(NOT p) = F(p),  T(p AND q) = T(p) ∩ T(q),  F(p AND q) = F(p) ∪ F(q),  and the mirror images for OR,
    so NOT is pushed to the leaves and only leaves need to know about nulls: for a comparison of column c,
    both T and F lie within the rows where c is not null.

    What a leaf allows, and the normal form of the result: `ranges`.
"""

from collections.abc import Iterable, Sequence
from functools import reduce
from typing import NoReturn

from sqlglot import exp

from slackwater.core.errors import AlgebraError
from slackwater.core.extent import Categories, Interval, Missing
from slackwater.core.region import EVERYTHING, NOTHING, Region
from slackwater.core.schema import Column, TableSchema
from slackwater.core.types import DataType, Scalar
from slackwater.sql.catalog import column_spelled, unknown
from slackwater.sql.constants import Constant, coerce, fold
from slackwater.sql.place import Text
from slackwater.sql.ranges import compared, members, normal, of_column, others

MOST_WORK = 50_000
"""Pairs of boxes that may be compared while a condition is put together."""

_FLIPPED = {"=": "=", "<>": "<>", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
_NEGATED = {"=": "<>", "<>": "=", "<": ">=", "<=": ">", ">": "<=", ">=": "<"}
_OPERATORS: dict[type[exp.Expr], str] = {
    exp.EQ: "=",
    exp.NEQ: "<>",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
}
_PATTERNS = (exp.Like, exp.ILike, exp.RegexpLike, exp.RegexpILike, exp.SimilarTo, exp.Glob, exp.Escape)
_CLOCKS = (exp.CurrentTimestamp, exp.CurrentDate, exp.CurrentTime, exp.CurrentDatetime)


class Names:
    """The columns that a condition may use: those of one table, by themselves or after one of its names."""

    def __init__(self, table: TableSchema, qualifiers: Iterable[str], text: Text) -> None:
        self.table = table
        self.text = text
        self.qualifiers = {name.lower() for name in qualifiers}

    def goes_by(self, name: str) -> bool:
        """True if this is a name of the table here."""
        return name.lower() in self.qualifiers

    def column(self, node: exp.Expr) -> Column:
        """The column that a node names, or an error at its place."""
        assert isinstance(node, exp.Column)
        self.check_qualifier(node)
        name = column_spelled(self.table, node.name)
        if name is None:
            known = [column.name for column in self.table.columns]
            self.text.fail(unknown("column", node.name, known, f" in table {self.table.name}"), node.this)
        return self.table.column(name)

    def check_qualifier(self, node: exp.Column) -> None:
        """Refuse a name before the dot that is not the table's."""
        if node.args.get("db"):
            self.text.fail("a column is written as column or table.column", node)
        if node.table and not self.goes_by(node.table):
            self.text.fail(unknown("table", node.table, self.qualifiers, " in this query"), node)


class Condition:
    """Turns conditions on one table into regions."""

    def __init__(self, names: Names) -> None:
        self._names = names
        self._text = names.text
        self._work = 0

    def region(self, node: exp.Expr) -> Region:
        """The rows for which the condition is true, in normal form."""
        try:
            return normal(self._rows(node, True), self._names.table)
        except AlgebraError as error:
            # It is no mistake: the evaluator of one-shot queries can do it.
            self._text.refuse(str(error), node)

    def _rows(self, node: exp.Expr, truth: bool) -> Region:
        """T(node), or F(node) where `truth` is False."""
        match node:
            case exp.Paren():
                return self._rows(node.this, truth)
            case exp.Not():
                return self._rows(node.this, not truth)
            case exp.And() | exp.Or():
                operands = list(node.flatten())
                if isinstance(node, exp.Or):
                    operands = _gathered(operands)
                parts = [self._rows(part, truth) for part in operands]
                return self._all(parts) if isinstance(node, exp.And) is truth else self._any(parts)
            case exp.Between():
                return self._between(node, truth)
            case exp.In():
                return self._in(node, truth)
            case exp.Is():
                return self._is(node, truth)
            case exp.NullSafeEQ() | exp.NullSafeNEQ():
                return self._distinct(node, truth is isinstance(node, exp.NullSafeEQ))
            case exp.Column() if not isinstance(node.this, exp.Star):
                return self._boolean(node, truth)
        if type(node) in _OPERATORS:
            assert isinstance(node, exp.Binary)
            return self._compare(node.left, _OPERATORS[type(node)], node.right, truth, node)
        constant = fold(node, self._text)
        if constant is None:
            self._refuse(node)
        if constant.value is None:
            return NOTHING
        if not isinstance(constant.value, bool):
            self._text.fail(f"expected a condition, this is {constant.described}", node)
        return EVERYTHING if constant.value is truth else NOTHING

    # ---- putting regions together --------------------------------------------------------------------

    def _all(self, regions: Sequence[Region]) -> Region:
        return reduce(lambda a, b: self._counted(a, b).intersect(b), regions)

    def _any(self, regions: Sequence[Region]) -> Region:
        return reduce(lambda a, b: self._counted(a, b).union(b), regions)

    def _counted(self, a: Region, b: Region) -> Region:
        self._work += (len(a.boxes) + 1) * (len(b.boxes) + 1)
        if self._work > MOST_WORK:
            raise AlgebraError("the condition is too complicated; use IN for lists, or split it into several queries")
        return a

    # ---- leaves ----------------------------------------------------------------------------------------

    def _compare(self, left: exp.Expr, sign: str, right: exp.Expr, truth: bool, node: exp.Expr) -> Region:
        left, right = left.unnest(), right.unnest()
        if isinstance(right, exp.Column) and not isinstance(left, exp.Column):
            left, sign, right = right, _FLIPPED[sign], left
        constant = fold(right, self._text)
        if constant is None:
            self._refuse(node)
        if not isinstance(left, exp.Column):
            other = fold(left, self._text)
            if other is None:
                self._refuse(node)
            return self._compare_constants(other, sign, constant, truth, node)
        column = self._names.column(left)
        if constant.value is None:
            return NOTHING
        value = coerce(constant, column.type, right, self._text, f"column {column.name}")
        if column.type is DataType.BOOLEAN and sign not in ("=", "<>"):
            self._text.fail(f"column {column.name} is BOOLEAN and has no order; use = or <>", node)
        return of_column(column, compared(column.type, sign if truth else _NEGATED[sign], value))

    def _compare_constants(self, a: Constant, sign: str, b: Constant, truth: bool, node: exp.Expr) -> Region:
        if a.value is None or b.value is None:
            return NOTHING
        kinds = {bool if isinstance(c.value, bool) else str if isinstance(c.value, str) else c.moment for c in (a, b)}
        if len(kinds) != 1:
            self._text.fail(f"{a.described} cannot be compared with {b.described}", node)
        kind = DataType.TEXT if isinstance(a.value, str) else DataType.DOUBLE
        holds = any(extent.contains(a.value) for extent in compared(kind, sign, b.value))
        if isinstance(a.value, bool):
            holds = (a.value == b.value) is (sign == "=")
        return EVERYTHING if holds is truth else NOTHING

    def _between(self, node: exp.Between, truth: bool) -> Region:
        if node.args.get("symmetric") is not None:
            self._text.refuse("BETWEEN SYMMETRIC is not possible in a standing query; put the lower end first", node)
        parts = [
            self._compare(node.this, ">=", node.args["low"], truth, node),
            self._compare(node.this, "<=", node.args["high"], truth, node),
        ]
        return self._all(parts) if truth else self._any(parts)

    def _in(self, node: exp.In, truth: bool) -> Region:
        if not node.expressions or any(node.args.get(part) for part in ("query", "unnest", "field")):
            self._text.refuse(
                "IN takes a list of constants in a standing query; write the values, as in room IN ('a', 'b')", node
            )
        this = node.this.unnest()
        if not isinstance(this, exp.Column):
            parts = [self._compare(this, "=", each, truth, node) for each in node.expressions]
            return self._any(parts) if truth else self._all(parts)
        column = self._names.column(this)
        values: set[Scalar] = set()
        for each in node.expressions:
            constant = fold(each, self._text)
            if constant is None:
                self._refuse(each)
            if constant.value is not None:
                values.add(coerce(constant, column.type, each, self._text, f"column {column.name}"))
            elif not truth:
                return NOTHING  # x NOT IN (…, NULL) is never true: x might equal the unknown
        return of_column(column, members(column.type, values) if truth else others(column.type, values))

    def _is(self, node: exp.Is, truth: bool) -> Region:
        this, right = node.this.unnest(), node.expression
        if isinstance(right, exp.Boolean):
            rows = self._rows(this, bool(right.this))
            return rows if truth else rows.complement()
        if not isinstance(right, exp.Null):
            self._refuse(node)
        if isinstance(this, exp.Column):
            return of_column(self._names.column(this), (Missing(),) if truth else (Interval(),))
        constant = fold(this, self._text)
        if constant is None:
            self._refuse(node)
        return EVERYTHING if (constant.value is None) is truth else NOTHING

    def _distinct(self, node: exp.Binary, same: bool) -> Region:
        """`IS [NOT] DISTINCT FROM`: a comparison that is never unknown."""
        sides = (node.left.unnest(), node.right.unnest())
        null = next((side for side in sides if isinstance(side, exp.Null)), None)
        if null is not None:
            other = sides[0] if sides[1] is null else sides[1]
            return self._is(exp.Is(this=other.copy(), expression=exp.Null()), same)
        equal = self._compare(sides[0], "=", sides[1], True, node)
        return equal if same else equal.complement()

    def _boolean(self, node: exp.Column, truth: bool) -> Region:
        column = self._names.column(node)
        if column.type is not DataType.BOOLEAN:
            self._text.fail(f"column {column.name} is {column.type.value}, not a condition; compare it", node)
        return of_column(column, (Categories(frozenset({truth})),))

    def _refuse(self, node: exp.Expr) -> NoReturn:
        """Raise with the reason why a condition is not supported."""
        for column in node.find_all(exp.Column):
            if not isinstance(column.this, exp.Star) and column.find_ancestor(exp.Query) is node.find_ancestor(
                exp.Query
            ):
                self._names.column(column)
        if node.find(exp.Query) or isinstance(node, exp.Exists):
            advice = "a query inside a condition; subscribe to it separately, or write its values as a list"
        elif isinstance(node, _PATTERNS):
            advice = "a pattern; use = or IN, or a range such as name >= 'A' AND name < 'B'"
        elif node.find(*_CLOCKS) or any(call.name.upper() == "NOW" for call in node.find_all(exp.Anonymous)):
            advice = "the present time; write the moment itself, as in TIMESTAMP '2026-01-31 12:00:00Z'"
        else:
            advice = "this; compare one column with a constant, the column alone on its side, as in price > 100"
        self._text.refuse(f"a standing condition cannot use {advice}", node)


def _gathered(operands: list[exp.Expr]) -> list[exp.Expr]:
    """`x = 1 OR x = 2 OR …` as `x IN (1, 2, …)`, which means the same and is put together in one step."""
    equal: dict[str, exp.In] = {}
    gathered: list[exp.Expr] = []
    for operand in operands:
        plain = operand.unnest()
        if not isinstance(plain, exp.EQ) or not isinstance(plain.left, exp.Column):
            gathered.append(operand)
            continue
        name = plain.left.sql().lower()
        if name not in equal:
            equal[name] = exp.In(this=plain.left.copy(), expressions=[])
            gathered.append(equal[name])
        equal[name].append("expressions", plain.right.copy())
    return gathered


def where(select: exp.Select, names: Names) -> Region:
    """The region of a query's WHERE."""
    clause = select.args.get("where")
    return EVERYTHING if clause is None else Condition(names).region(clause.this)
