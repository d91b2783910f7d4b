"""Join kind: `SUBSCRIBE SELECT columns FROM left JOIN right ON right.x - left.x BETWEEN …`, and its like."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from sqlglot import exp

from slackwater.core.errors import NotSupported, SchemaError
from slackwater.core.extent import Interval
from slackwater.core.query import Join, StandingQuery
from slackwater.core.region import Region
from slackwater.core.region_codec import extent_of, plain_extent, plain_region, region_of
from slackwater.core.schema import TableSchema
from slackwater.core.types import DataType, Scalar
from slackwater.kinds.base import AnswerRows, QueryKind, TableRows, UnboundSubscription, subscription
from slackwater.kinds.checks import check_side
from slackwater.kinds.join.binder import join
from slackwater.kinds.join.schema import called, check_pair, column_of, joined_name, joined_schema, pair_named
from slackwater.kinds.join.syntax import join_select
from slackwater.sql.catalog import Catalog
from slackwater.sql.explain_tree import Detail, ExplainTree, rows_tree
from slackwater.sql.shape import table_joins

_NUMBERS = (DataType.BIGINT, DataType.DOUBLE)


class JoinKind(QueryKind[Join]):
    """Pairs of rows of two tables, by an equality or by a difference in a range."""

    name = "join"
    value = Join

    def matches(self, tree: exp.Expr) -> bool:
        """Something else than a list of values is joined."""
        return any(table_joins(tree))

    def bind(self, asked: UnboundSubscription) -> Join:
        """Columns of both tables, what joins them, and a region of each."""
        return join(asked.select, asked.catalog, asked.text)

    def syntax(self, query: Join, catalog: Catalog) -> exp.Expr:
        """SELECT columns FROM left JOIN right ON condition WHERE regions."""
        return subscription(join_select(query, catalog))

    def explain(self, query: Join) -> ExplainTree:
        """What joins the rows, and which rows of each table."""
        names = called(query.left, query.right)
        left, right = f"{names[0]}.{query.left_column}", f"{names[1]}.{query.right_column}"
        on = f"{left} = {right}" if query.band is None else f"{right} - {left} in {query.band}"
        return ExplainTree(
            "select-join" if query.band is None else "band join",
            (Detail("columns", query.columns), Detail("on", on)),
            (rows_tree(names[0], query.left_region), rows_tree(names[1], query.right_region)),
        )

    def encode(self, query: Join) -> list[Any]:
        """As lists."""
        band = None if query.band is None else plain_extent(query.band)
        regions = [plain_region(query.left_region), plain_region(query.right_region)]
        on = [query.left_column, query.right_column]
        return [self.tag, query.left, query.right, on, list(query.columns), band, *regions]

    def decode(self, plain: list[Any], text: str) -> Join | None:
        """From lists."""
        _, left, right, on, columns, band, *regions = plain
        extent = None if band is None else extent_of(band)
        assert extent is None or isinstance(extent, Interval)
        left_region, right_region = map(region_of, regions)
        return Join(left, right, on[0], on[1], tuple(columns), extent, left_region, right_region)

    def check(self, query: Join, schemas: Sequence[TableSchema]) -> None:
        """Its columns are there, can be compared, and its regions are ranges of numbers."""
        left, right = schemas
        check_pair(left.name, right.name)
        joined = joined_schema(left, right)
        for name in query.columns:
            joined.column(name)
        kinds = left.column(query.left_column).type, right.column(query.right_column).type
        if query.band is None and kinds[0] is not kinds[1] and not all(kind in _NUMBERS for kind in kinds):
            raise SchemaError(f"{kinds[0].value} and {kinds[1].value} are never equal: join columns of one type")
        if query.band is not None and not all(kind in _NUMBERS for kind in kinds):
            raise SchemaError(f"a difference is of numbers, not of {kinds[0].value} and {kinds[1].value}")
        for table, region in ((left, query.left_region), (right, query.right_region)):
            if len(region.boxes) > 1:
                raise NotSupported(
                    f"a join selects rows of {table.name} by one box of ranges, not by {len(region.boxes)}"
                )
            for box in region:
                for side in box.sides:
                    check_side(side, table)
                    kind = table.column(side.column).type
                    if not isinstance(side.extent, Interval) or kind not in (*_NUMBERS, DataType.TIMESTAMP):
                        raise NotSupported(
                            f"a join selects by ranges of numbers and times, and {side.column} is {kind.value}"
                        )

    def conjoin(self, query: Join, table: str, rows: Region) -> Join:
        """Fewer rows of one of its tables, or of both where they are one."""
        if table == query.left:
            query = replace(query, left_region=query.left_region.intersect(rows))
        if table == query.right:
            query = replace(query, right_region=query.right_region.intersect(rows))
        return query

    def answer_table(self, query: Join) -> str:
        """The name of the pair of tables."""
        return joined_name(query.left, query.right)

    def answer_schema(self, name: str, schema: Callable[[str], TableSchema]) -> TableSchema | None:
        """The columns of both tables side by side."""
        pair = pair_named(name)
        return None if pair is None else joined_schema(schema(pair[0]), schema(pair[1]))

    def recompute(self, query: Join, tables: Mapping[str, TableRows]) -> float | AnswerRows | None:
        """Every row with every other."""
        names = called(query.left, query.right)
        found: dict[tuple[Scalar | None, ...], tuple[Scalar | None, ...]] = {}
        for left_key, left in tables[query.left].items():
            if not query.left_region.contains(left.__getitem__):
                continue
            for right_key, right in tables[query.right].items():
                if query.right_region.contains(right.__getitem__) and _joins(query, left, right):
                    both = {column_of(names[0], name): value for name, value in left.items()}
                    both |= {column_of(names[1], name): value for name, value in right.items()}
                    found[(*left_key, *right_key)] = tuple(both[name] for name in query.columns)
        return found


def _joins(query: Join, left: Mapping[str, Scalar | None], right: Mapping[str, Scalar | None]) -> bool:
    first, second = left[query.left_column], right[query.right_column]
    if first is None or second is None:
        return False
    if query.band is None:
        return first == second
    assert isinstance(first, int | float)
    assert isinstance(second, int | float)
    return query.band.contains(float(second) - float(first))


def as_join(query: StandingQuery | None) -> Join | None:
    """The query, if it is a join."""
    return query if isinstance(query, Join) else None
