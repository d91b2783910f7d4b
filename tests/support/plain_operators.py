"""Reference operators, the test oracles: after every batch each query of the table is computed anew.

They keep the whole contract but its eighth point (cost), are what the fast ones are compared with, and can stand in
for them.
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from slackwater.core.query import Aggregate, AggregateFunction, Selection, StandingQuery
from slackwater.core.region import Region
from slackwater.core.schema import TableSchema
from slackwater.core.types import Key, Position, Row
from slackwater.kinds.registry import plain_query, query_of
from slackwater.processing import state
from slackwater.processing.base import (
    Answer,
    Changes,
    Latest,
    Notifications,
    RowKind,
    Rows,
    TableOperator,
    Values,
)
from slackwater.processing.columns import python_rows


def selected(region: Region, table: TableSchema, rows: Sequence[Row]) -> list[Row]:
    """The rows that lie in a region."""
    names = [column.name for column in table.columns]
    return [row for row in rows if region.contains(dict(zip(names, row, strict=True)).get)]


def aggregated(query: Aggregate, table: TableSchema, rows: Sequence[Row]) -> float | None:
    """The truth: the aggregate of these rows, None where it has no value, as the average of none or beyond DOUBLE."""
    factors = None if query.weights is None else {weight.key: weight.factor for weight in query.weights}
    numbers = []
    for row in selected(query.region, table, rows):
        key = table.key_of(row)
        cell = 1.0 if query.column is None else row[table.index(query.column)]
        if cell is None or (factors is not None and key not in factors):
            continue
        factor = query.scale * (1.0 if factors is None else factors[key])
        # There is one zero: of −0 and 0 neither is less.
        numbers.append(1.0 if query.function is AggregateFunction.COUNT else factor * float(cell) + 0.0)
    match query.function:
        case AggregateFunction.COUNT:
            return float(len(numbers))
        case AggregateFunction.MIN:
            value = min(numbers, default=math.nan)
        case AggregateFunction.MAX:
            value = max(numbers, default=math.nan)
        case AggregateFunction.SUM:
            value = _sum(numbers) if numbers else math.nan
        case AggregateFunction.AVG:
            value = _sum(numbers) / len(numbers) if numbers else math.nan
    return value if math.isfinite(value) else None


def _sum(numbers: list[float]) -> float:
    try:
        return math.fsum(numbers)
    except (OverflowError, ValueError):
        return math.nan


class PlainAggregates(TableOperator):
    """Bounded aggregates by recomputation."""

    name = "PlainAggregates"

    def __init__(self) -> None:
        self._kept: dict[int, tuple[Aggregate, float | None, Position]] = {}

    def accepts(self, query: StandingQuery) -> bool:
        """Aggregates of every kind."""
        return isinstance(query, Aggregate)

    def register(self, number: int, query: StandingQuery, latest: Latest, position: Position) -> Answer:
        """Keep a query from now on."""
        assert isinstance(query, Aggregate)
        truth = aggregated(query, latest.schema, python_rows(latest.rows))
        self._kept[number] = (query, truth, position)
        return Answer(number, position, truth)

    def unregister(self, number: int, position: Position) -> None:
        """Forget a query."""
        self._kept.pop(number, None)

    def apply(self, changes: Changes, latest: Latest, position: Position) -> Notifications:
        """Compute every query of the table anew."""
        rows = python_rows(latest.rows)
        changed: list[tuple[int, float | None]] = []
        for number, (query, before, _) in sorted(self._kept.items()):
            if query.table != changes.table or not len(changes):
                continue
            truth = aggregated(query, latest.schema, rows)
            both = before is not None and truth is not None
            if (both and not query.bound.holds(before, truth)) or (not both and before != truth):  # type: ignore[arg-type]
                self._kept[number] = (query, truth, position)
                changed.append((number, truth))
        if not changed:
            return Notifications(position)
        there = np.array([truth is not None for _, truth in changed])
        values = np.array([0.0 if truth is None else truth for _, truth in changed])
        return Notifications(position, Values(np.array([number for number, _ in changed], np.int64), values, there))

    def answer(self, number: int, latest: Latest) -> Answer:
        """Everything published of a query so far."""
        _, published, changed = self._kept[number]
        return Answer(number, changed, published)

    def snapshot(self) -> bytes:
        """The whole state."""
        kept = [[number, plain_query(query), *rest] for number, (query, *rest) in sorted(self._kept.items())]
        return state.pack("plain aggregates", {"kept": kept})

    def restore(self, body: bytes) -> None:
        """Restore the state from a snapshot."""
        self._kept = {}
        for number, plain, published, changed in state.unpack("plain aggregates", body)["kept"]:
            query = query_of(plain)
            assert isinstance(query, Aggregate)
            self._kept[number] = (query, published, Position(changed))


class PlainSelections(TableOperator):
    """Selections by recomputation."""

    name = "PlainSelections"

    def __init__(self) -> None:
        self._kept: dict[int, tuple[Selection, dict[Key, Row], Position]] = {}

    def accepts(self, query: StandingQuery) -> bool:
        """Selections of every kind."""
        return isinstance(query, Selection)

    def register(self, number: int, query: StandingQuery, latest: Latest, position: Position) -> Answer:
        """Keep a query from now on."""
        assert isinstance(query, Selection)
        self._kept[number] = (query, self._shown(query, latest), position)
        return self.answer(number, latest)

    def unregister(self, number: int, position: Position) -> None:
        """Forget a query."""
        self._kept.pop(number, None)

    def apply(self, changes: Changes, latest: Latest, position: Position) -> Notifications:
        """Compute every query of the table anew and compare."""
        place_of = {latest.schema.key_of(row): place for place, row in enumerate(python_rows(changes.after))}
        found: list[tuple[int, int, int]] = []
        for number, (query, before, changed) in sorted(self._kept.items()):
            if query.table != changes.table:
                continue
            now = self._shown(query, latest)
            facts = [(place_of[key], RowKind.DELETE) for key in before.keys() - now.keys()]
            facts += [(place_of[key], RowKind.UPSERT) for key, row in now.items() if before.get(key) != row]
            found += [(number, place, kind) for place, kind in sorted(facts)]
            self._kept[number] = (query, now, position if facts else changed)
        if not found:
            return Notifications(position)
        mentioned = sorted({place for _, place, _ in found})
        table = np.array(found, np.int64)
        places = np.searchsorted(mentioned, table[:, 1])
        rows = changes.after.take(pa.array(mentioned))
        return Notifications(
            position, rows=(Rows(changes.table, table[:, 0], places, table[:, 2].astype(np.int8), rows),)
        )

    def answer(self, number: int, latest: Latest) -> Answer:
        """Everything published of a query so far."""
        _, shown, changed = self._kept[number]
        keys = [latest.schema.key_of(row) for row in python_rows(latest.rows)]
        mask: list[Any] = [key in shown for key in keys]
        return Answer(number, changed, rows=latest.rows.filter(pa.array(mask, pa.bool_())))

    def snapshot(self) -> bytes:
        """The whole state."""
        kept = [
            [number, plain_query(query), [[list(key), list(row)] for key, row in shown.items()], changed]
            for number, (query, shown, changed) in sorted(self._kept.items())
        ]
        return state.pack("plain selections", {"kept": kept})

    def restore(self, body: bytes) -> None:
        """Restore the state from a snapshot."""
        self._kept = {}
        for number, plain, shown, changed in state.unpack("plain selections", body)["kept"]:
            query = query_of(plain)
            assert isinstance(query, Selection)
            rows = {tuple(key): tuple(row) for key, row in shown}
            self._kept[number] = (query, rows, Position(changed))

    def _shown(self, query: Selection, latest: Latest) -> dict[Key, Row]:
        table = latest.schema
        places = [table.index(name) for name in query.columns]
        rows = selected(query.region, table, python_rows(latest.rows))
        return {table.key_of(row): tuple(row[place] for place in places) for row in rows}
