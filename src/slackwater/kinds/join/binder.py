"""Binder of joins: SUBSCRIBE to two tables → a standing equi-join or band join.

The conditions of ON and of WHERE are one conjunction, as an inner join means in SQL. A part that names columns of one
table is a condition on that table's rows. The others join: either one equality of two columns, or comparisons of the
difference of two columns with constants, which together are a band. Two columns compared by < and the like are such a
difference with 0: of doubles, a < b exactly where a − b < 0.
"""

from collections.abc import Iterator

from sqlglot import exp

from slackwater.core.errors import SchemaError
from slackwater.core.extent import Interval
from slackwater.core.query import Join
from slackwater.core.region import EVERYTHING, NOTHING
from slackwater.core.schema import Column, TableSchema
from slackwater.core.types import DataType
from slackwater.kinds.join.schema import called, check_pair, column_of
from slackwater.sql.catalog import Catalog, column_spelled, unknown
from slackwater.sql.condition import Condition, Names
from slackwater.sql.constants import fold, to_float
from slackwater.sql.place import Text
from slackwater.sql.ranges import normal
from slackwater.sql.tables import from_table, named_table, refuse_other_parts

_NUMBERS = (DataType.BIGINT, DataType.DOUBLE)
_RANGED = (*_NUMBERS, DataType.TIMESTAMP)
_COMPARISONS: dict[type[exp.Expr], str] = {exp.LT: "<", exp.LTE: "<=", exp.GT: ">", exp.GTE: ">=", exp.EQ: "="}
_MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "=": "="}
_HOW = (
    "write one equality, as in ON a.x = b.x or USING (x), or a difference in a range, as in b.x - a.x BETWEEN -3 AND 5"
)


_ONE = "a standing join has one equality, or one difference in a range; leave one out"
_NOTHING = Interval(1.0, 0.0)
"""A band that nothing lies in, written in one way."""


def join(select: exp.Select, catalog: Catalog, text: Text) -> Join:
    """A join of rows of two tables; what is more than that is refused."""
    refuse_other_parts(select, {"expressions", "from_", "joins", "where"}, text)
    joins = select.args["joins"]
    if len(joins) > 1:
        text.refuse("a standing join is of two tables; subscribe to the others by themselves", joins[1])
    [node] = joins
    if node.args.get("side") or node.args.get("method") or (node.args.get("kind") or "INNER") not in ("INNER", "CROSS"):
        text.refuse("a standing join is an inner join; write JOIN alone, with ON or USING", node)
    left, right = from_table(select, catalog, text), named_table(node.this, catalog, text)
    try:
        check_pair(left[0].name, right[0].name)
    except SchemaError as error:
        text.refuse(str(error), node.this)
    for name in left[1].qualifiers & right[1].qualifiers:
        text.fail(
            f"both tables are called {name} here; give one another name, as in FROM {left[0].name} AS a "
            f"JOIN {right[0].name} AS b",
            node.this,
        )
    return _Joining(left, right, text).query(select, node)


class _Joining:
    """Accumulator of a join's conditions over its two tables."""

    def __init__(self, left: tuple[TableSchema, Names], right: tuple[TableSchema, Names], text: Text) -> None:
        self._sides = (left, right)
        self._called = called(left[0].name, right[0].name)
        self._text = text
        self._using: str | None = None
        self._regions = [EVERYTHING, EVERYTHING]
        self._on: tuple[Column, Column] | None = None
        self._equal = False
        self._band = Interval()

    def query(self, select: exp.Select, node: exp.Join) -> Join:
        self._take_using(node)
        where = select.args.get("where")
        for clause in (node.args.get("on"), None if where is None else where.this):
            for part in _conjuncts(clause):
                self._take(part)
        if self._on is None:
            self._text.refuse(f"nothing joins the two tables; {_HOW}", node)
        (left, _), (right, _) = self._sides
        regions = [normal(region, table) for region, (table, _) in zip(self._regions, self._sides, strict=True)]
        if self._band.empty or any(region.empty for region in regions):
            regions = [NOTHING, EVERYTHING]
        band = _NOTHING if self._band.empty else self._band
        return Join(
            left.name,
            right.name,
            self._on[0].name,
            self._on[1].name,
            self._columns(select),
            None if self._equal else band,
            *regions,
        )

    # ---- whose columns

    def _side(self, node: exp.Column) -> int:
        """The table that a column is of: 0 the left, 1 the right."""
        if node.table:
            for side, (_, names) in enumerate(self._sides):
                if names.goes_by(node.table):
                    return side
            known = [name for _, names in self._sides for name in names.qualifiers]
            self._text.fail(unknown("table", node.table, known, " in this query"), node)
        having = [side for side, (table, _) in enumerate(self._sides) if column_spelled(table, node.name) is not None]
        if not having:
            known = [column.name for table, _ in self._sides for column in table.columns]
            where = f" in {self._sides[0][0].name} or {self._sides[1][0].name}"
            self._text.fail(unknown("column", node.name, known, where), node.this)
        if len(having) > 1 and node.name.lower() != self._using:
            self._text.fail(f"it is not clear which {node.name} is meant here; write table.{node.name}", node)
        return having[0]

    def _column(self, node: exp.Column) -> tuple[int, Column]:
        side = self._side(node)
        return side, self._sides[side][1].column(node)

    # ---- conditions

    def _take_using(self, node: exp.Join) -> None:
        using = node.args.get("using")
        if not using:
            return
        if len(using) > 1:
            self._text.refuse("a standing join compares one column of each table; put the others into one", using[1])
        name = using[0].name
        columns = []
        for table, _ in self._sides:
            known = column_spelled(table, name)
            if known is None:
                names = [column.name for column in table.columns]
                self._text.fail(unknown("column", name, names, f" in table {table.name}"), using[0])
            columns.append(table.column(known))
        self._using = name.lower()
        self._equate(columns[0], columns[1], using[0])

    def _take(self, node: exp.Expr) -> None:
        columns = [
            self._column(column) for column in node.find_all(exp.Column) if not isinstance(column.this, exp.Star)
        ]
        sides = {side for side, _ in columns}
        if len(sides) < 2:
            [side] = sides or {0}
            self._select(side, node)
            return
        match node:
            case exp.Between() if node.args.get("symmetric") is None:
                self._compare(node.this, ">=", node.args["low"], node)
                self._compare(node.this, "<=", node.args["high"], node)
            case _ if type(node) in _COMPARISONS:
                assert isinstance(node, exp.Binary)
                self._compare(node.left, _COMPARISONS[type(node)], node.right, node)
            case _:
                self._text.refuse(f"a standing join cannot use this; {_HOW}", node)

    def _select(self, side: int, node: exp.Expr) -> None:
        """A condition on rows of one side: ranges of numbers, all of which hold."""
        table, names = self._sides[side]
        region = Condition(names).region(node)
        for box in region:
            for one in box.sides:
                if table.column(one.column).type not in _RANGED or not isinstance(one.extent, Interval):
                    self._text.refuse(
                        f"a standing join selects by ranges of numbers and times, and this asks {one.column} for "
                        "something else; leave it out and choose in your program",
                        node,
                    )
        if len(region.boxes) > 1:
            self._text.refuse(
                "a standing join selects by one range for each column; subscribe once for each of several", node
            )
        self._regions[side] = self._regions[side].intersect(region)

    def _compare(self, left: exp.Expr, sign: str, right: exp.Expr, node: exp.Expr) -> None:
        left, right = left.unnest(), right.unnest()
        if isinstance(left, exp.Column) and isinstance(right, exp.Column):
            if sign == "=":
                self._equate(*self._in_order(left, right)[:2], node)
                return
            end = 0.0
        else:
            if not isinstance(left, exp.Sub):
                left, sign, right = right, _MIRRORED[sign], left
            constant = fold(right, self._text)
            if not isinstance(left, exp.Sub) or constant is None:
                self._text.refuse(f"a standing join cannot use this; {_HOW}", node)
            if isinstance(constant.value, bool | str) or constant.value is None or constant.moment:
                self._text.fail(f"a difference is a number and cannot be compared with {constant.described}", right)
            end = to_float(constant.value, right, self._text)
            difference = left
            left, right = difference.left.unnest(), difference.right.unnest()
            if not isinstance(left, exp.Column) or not isinstance(right, exp.Column):
                self._text.refuse(f"a standing join cannot use this; {_HOW}", node)
        first, second, turned = self._in_order(left, right)
        if not turned:
            # left − right, where the band is of right − left.
            sign, end = _MIRRORED[sign], -end + 0.0
        self._narrow(first, second, sign, end, node)

    def _in_order(self, left: exp.Column, right: exp.Column) -> tuple[Column, Column, bool]:
        """The columns of the left and the right table, and whether they stood the other way round."""
        (side, first), (_, second) = self._column(left), self._column(right)
        return (second, first, True) if side == 1 else (first, second, False)

    def _equate(self, left: Column, right: Column, node: exp.Expr) -> None:
        if left.type is not right.type and not {left.type, right.type} <= {*_NUMBERS}:
            self._text.fail(
                f"{left.name} is {left.type.value} and {right.name} is {right.type.value}: they are never equal", node
            )
        if self._on is not None:
            self._text.refuse(_ONE, node)
        self._on, self._equal = (left, right), True

    def _narrow(self, left: Column, right: Column, sign: str, end: float, node: exp.Expr) -> None:
        for column in (left, right):
            if column.type not in _NUMBERS:
                self._text.refuse(
                    f"a difference in a range is of numbers, and {column.name} is {column.type.value}", node
                )
        if self._equal or self._on not in (None, (left, right)):
            self._text.refuse(_ONE, node)
        self._on = (left, right)
        low = None if sign in ("<", "<=") else end
        high = None if sign in (">", ">=") else end
        self._band = self._band.meet(Interval(low, high, low_open=sign == ">", high_open=sign == "<"))

    # ---- what is shown

    def _columns(self, select: exp.Select) -> tuple[str, ...]:
        shown: list[str] = []
        for node in select.expressions:
            star = node.this if isinstance(node, exp.Column) else node
            if isinstance(star, exp.Star):
                if any(star.args.values()):
                    self._text.refuse("* takes no EXCEPT or REPLACE in a standing query; write the columns", node)
                shown += self._star(node)
                continue
            column = node.this if isinstance(node, exp.Alias) else node
            if not isinstance(column, exp.Column):
                self._text.refuse("a standing join shows columns as they are; compute from them in your program", node)
            side, found = self._column(column)
            if isinstance(node, exp.Alias):
                self._text.refuse(
                    f"the columns of a standing join are called by their tables, as in {self._called[side]}."
                    f"{found.name}; leave AS {node.alias} out",
                    node,
                )
            shown.append(column_of(self._called[side], found.name))
        if len(set(shown)) != len(shown):
            self._text.refuse("a column is asked for twice; once is enough", select.expressions[-1])
        return tuple(shown)

    def _star(self, node: exp.Expr) -> Iterator[str]:
        """The columns of one table, or of both; as in SQL, `*` alone has what is compared by USING once."""
        only = self._side(node) if isinstance(node, exp.Column) else None
        for side, (table, _) in enumerate(self._sides):
            if only in (None, side):
                for column in table.columns:
                    if only is not None or side == 0 or column.name.lower() != self._using:
                        yield column_of(self._called[side], column.name)


def _conjuncts(clause: exp.Expr | None) -> Iterator[exp.Expr]:
    if clause is None:
        return
    plain = clause.unnest()
    if isinstance(plain, exp.And):
        for part in plain.flatten():
            yield from _conjuncts(part)
    else:
        yield plain
