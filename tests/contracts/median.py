"""An extension from outside the package: exact medians, their operator, and a source of rows."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import Any

import numpy as np
import pyarrow as pa
from sqlglot import exp

from slackwater.core import EVERYTHING, EXACT, Bound, Column, DataType, Key, Position, Region, Scalar, TableSchema
from slackwater.core.query import OfNumber, StandingQuery
from slackwater.core.region_codec import plain_region, region_of
from slackwater.kinds.base import TableKind, UnboundSubscription, subscription
from slackwater.kinds.checks import check_region
from slackwater.kinds.registry import plain_query, query_of
from slackwater.processing import state
from slackwater.processing.base import Answer, Changes, Latest, Notifications, TableOperator, Values
from slackwater.processing.regions import inside
from slackwater.sources.synthetic.base import BLOCK_TICKS, Block, Generator
from slackwater.sql.catalog import Catalog
from slackwater.sql.condition import where
from slackwater.sql.explain_tree import Detail, ExplainTree, rows_tree
from slackwater.sql.shape import plain_select, table_joins
from slackwater.sql.syntax import column_node, name_node, table_schema, where_node
from slackwater.sql.tables import from_table, refuse_other_parts


@dataclass(frozen=True, slots=True)
class Median(OfNumber):
    table: str
    column: str
    region: Region = EVERYTHING

    @property
    def tables(self) -> tuple[str, ...]:
        return (self.table,)

    @property
    def bound(self) -> Bound:
        return EXACT


class MedianKind(TableKind[Median]):
    name = "median"
    value = Median

    def matches(self, tree: exp.Expr) -> bool:
        select = plain_select(tree)
        return select is not None and not any(table_joins(tree)) and isinstance(select.expressions[0], exp.Median)

    def bind(self, asked: UnboundSubscription) -> Median:
        refuse_other_parts(asked.select, {"expressions", "from_", "where"}, asked.text)
        table, names = from_table(asked.select, asked.catalog, asked.text)
        column = names.column(asked.select.expressions[0].this)
        return Median(table.name, column.name, where(asked.select, names))

    def syntax(self, query: Median, catalog: Catalog) -> exp.Expr:
        table = exp.From(this=exp.Table(this=name_node(query.table)))
        region = where_node(query.region, table_schema(query.table, catalog))
        shown = exp.Median(this=column_node(query.column))
        return subscription(exp.Select(expressions=[shown], from_=table, where=region))

    def explain(self, query: Median) -> ExplainTree:
        return ExplainTree("median", (Detail("column", query.column),), (rows_tree(query.table, query.region),))

    def encode(self, query: Median) -> list[Any]:
        return [self.tag, query.table, query.column, plain_region(query.region)]

    def decode(self, plain: list[Any], text: str) -> Median:
        return Median(plain[1], plain[2], region_of(plain[3]))

    def check(self, query: Median, schemas: Sequence[TableSchema]) -> None:
        check_region(query.region, schemas[0])
        schemas[0].column(query.column)

    def conjoin(self, query: Median, table: str, rows: Region) -> Median:
        return replace(query, region=query.region.intersect(rows))

    def contribution(self, query: Median, key: Key, row: Mapping[str, Scalar | None]) -> tuple[Any, ...] | None:
        return (row[query.column],) if query.region.contains(row.__getitem__) else None

    def fold(self, query: Median, contributions: Iterable[tuple[Scalar | None, ...]]) -> float | None:
        values = [float(value) for (value,) in contributions if isinstance(value, int | float)]
        return median(values) if values else None


class Medians(TableOperator):
    name = "Medians"

    def __init__(self) -> None:
        self._kept: dict[int, tuple[Median, float | None, int]] = {}

    def accepts(self, query: StandingQuery) -> bool:
        return isinstance(query, Median)

    def register(self, number: int, query: StandingQuery, latest: Latest, position: Position) -> Answer:
        assert isinstance(query, Median)
        self._kept[number] = (query, _median(query, latest), position)
        return Answer(number, position, self._kept[number][1])

    def unregister(self, number: int, position: Position) -> None:
        self._kept.pop(number, None)

    def apply(self, changes: Changes, latest: Latest, position: Position) -> Notifications:
        mine = {number: one for number, one in sorted(self._kept.items()) if one[0].table == changes.table}
        now = {number: _median(query, latest) for number, (query, *_) in mine.items()}
        new = [number for number in mine if now[number] != mine[number][1]]
        self._kept.update({number: (mine[number][0], now[number], position) for number in new})
        values = np.array([now[number] or 0.0 for number in new])
        there = np.array([now[number] is not None for number in new], bool)
        return Notifications(position, Values(np.array(new, np.int64), values, there))

    def answer(self, number: int, latest: Latest) -> Answer:
        _, said, changed = self._kept[number]
        return Answer(number, Position(changed), said)

    def snapshot(self) -> bytes:
        kept = [[number, plain_query(query), *rest] for number, (query, *rest) in sorted(self._kept.items())]
        return state.pack("medians", {"kept": kept})

    def restore(self, body: bytes) -> None:
        self._kept = {one[0]: (query_of(one[1]), *one[2:]) for one in state.unpack("medians", body)["kept"]}


def _median(query: Median, latest: Latest) -> float | None:
    rows = latest.rows.filter(pa.array(inside(query.region, latest.schema, latest.rows)))
    values = rows.column(query.column).drop_null().to_numpy(zero_copy_only=False)
    return float(np.median(values)) if len(values) else None


@dataclass(frozen=True, kw_only=True)
class Steps(Generator):
    NAME = "steps"

    @property
    def schema(self) -> TableSchema:
        types = {"id": DataType.BIGINT, "price": DataType.DOUBLE, "at": DataType.TIMESTAMP}
        columns = tuple(Column(name, kind, nullable=name != "id") for name, kind in types.items())
        return TableSchema(self.table or "steps", columns, ("id",), "at")

    def blocks(self, random: np.random.Generator) -> Iterator[Block]:
        for first in range(0, 1 << 40, BLOCK_TICKS):
            ticks = np.arange(first, first + BLOCK_TICKS)
            yield Block((pa.array(ticks % 7), pa.array(ticks * 1.5)), ticks, first + BLOCK_TICKS)


KINDS, OPERATORS, SOURCES = [MedianKind()], [Medians], [Steps]
