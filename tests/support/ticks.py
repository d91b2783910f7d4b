"""An extension whose queries depend on time alone: how many ticks have come since a query was registered."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sqlglot import exp

from slackwater.core import EXACT, Bound, Instant, Position, Region, TableSchema
from slackwater.core.query import OfNumber, StandingQuery
from slackwater.kinds.base import QueryKind, TableRows, UnboundSubscription, subscription
from slackwater.kinds.registry import plain_query, query_of
from slackwater.processing import state
from slackwater.processing.base import Answer, Changes, Latest, Notifications, TableOperator, Values
from slackwater.sql.catalog import Catalog
from slackwater.sql.explain_tree import ExplainTree
from slackwater.sql.shape import plain_select
from slackwater.sql.syntax import name_node
from slackwater.sql.tables import from_table


@dataclass(frozen=True, slots=True)
class Ticks(OfNumber):
    """`SUBSCRIBE SELECT TICKS(period) FROM table`, the period in microseconds."""

    table: str
    period: int

    @property
    def tables(self) -> tuple[str, ...]:
        return (self.table,)

    @property
    def bound(self) -> Bound:
        return EXACT


class TicksKind(QueryKind[Ticks]):
    name = "ticks"
    value = Ticks
    timed = True

    def tick_period(self, query: Ticks) -> int:
        return query.period

    def matches(self, tree: exp.Expr) -> bool:
        select = plain_select(tree)
        shown = None if select is None else select.expressions[0]
        return isinstance(shown, exp.Anonymous) and shown.name.upper() == "TICKS"

    def bind(self, asked: UnboundSubscription) -> Ticks:
        table, _ = from_table(asked.select, asked.catalog, asked.text)
        return Ticks(table.name, int(asked.select.expressions[0].expressions[0].this))

    def syntax(self, query: Ticks, catalog: Catalog) -> exp.Expr:
        shown = exp.Anonymous(this="TICKS", expressions=[exp.Literal.number(query.period)])
        table = exp.From(this=exp.Table(this=name_node(query.table)))
        return subscription(exp.Select(expressions=[shown], from_=table))

    def explain(self, query: Ticks) -> ExplainTree:
        return ExplainTree("ticks")

    def encode(self, query: Ticks) -> list[Any]:
        return [self.tag, query.table, query.period]

    def decode(self, plain: list[Any], text: str) -> Ticks:
        return Ticks(*plain[1:])

    def check(self, query: Ticks, schemas: Sequence[TableSchema]) -> None:
        """A table is all that it needs."""

    def conjoin(self, query: Ticks, table: str, rows: Region) -> Ticks:
        return query

    def recompute(self, query: Ticks, tables: Mapping[str, TableRows]) -> float | None:
        return None


class TickCounts(TableOperator):
    name = "TickCounts"

    def __init__(self) -> None:
        self._kept: dict[int, tuple[Ticks, int, int]] = {}
        self.calls: list[tuple[int, int]] = []
        """The time and position of every tick, for tests to see."""

    def accepts(self, query: StandingQuery) -> bool:
        return isinstance(query, Ticks)

    def register(self, number: int, query: StandingQuery, latest: Latest, position: Position) -> Answer:
        assert isinstance(query, Ticks)
        self._kept[number] = (query, 0, int(position))
        return Answer(number, position, 0.0)

    def unregister(self, number: int, position: Position) -> None:
        self._kept.pop(number, None)

    def apply(self, changes: Changes, latest: Latest, position: Position) -> Notifications:
        return Notifications(position)

    def advance(self, time: Instant, position: Position) -> Notifications:
        self.calls.append((int(time), int(position)))
        self._kept = {number: (one[0], one[1] + 1, int(position)) for number, one in sorted(self._kept.items())}
        counts = np.array([float(count) for _, count, _ in self._kept.values()])
        numbers = np.array([*self._kept], np.int64)
        return Notifications(position, Values(numbers, counts, np.ones(len(counts), np.bool_)))

    def answer(self, number: int, latest: Latest) -> Answer:
        _, count, changed = self._kept[number]
        return Answer(number, Position(changed), float(count))

    def snapshot(self) -> bytes:
        kept = [[number, plain_query(query), *rest] for number, (query, *rest) in sorted(self._kept.items())]
        return state.pack("ticks", {"kept": kept})

    def restore(self, body: bytes) -> None:
        self._kept = {one[0]: (query_of(one[1]), *one[2:]) for one in state.unpack("ticks", body)["kept"]}


KINDS, OPERATORS = [TicksKind()], [TickCounts]
