"""Plain host, the test double of operators: for worlds in which the operators are not under test.

The real host works on columns and is at its best with thousands of queries; in a world of a dozen rows and queries it
takes most of the time. This one keeps the contract of `processing.base` with dictionaries, so that many more worlds
can be simulated. Some worlds have the real one: see `workload.engine`.
"""

import pickle
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa

from slackwater.core.arrow import field as arrow_field
from slackwater.core.query import AnswerShape, StandingQuery
from slackwater.core.region import Region
from slackwater.core.schema import TableSchema
from slackwater.core.types import Key, Position, Row, Scalar
from slackwater.core.update import Operation
from slackwater.kinds.base import TableKind
from slackwater.kinds.registry import kind_of
from slackwater.processing.base import Answer, Notifications, RowKind, Rows, Values
from slackwater.processing.concatenate import merged
from slackwater.processing.host import Host
from slackwater.sql.explain_tree import ExplainTree


@dataclass(slots=True)
class _Kept:
    """A query, the contributions of the rows in its region, and the value last published."""

    query: StandingQuery
    given: dict[Row, "tuple[Scalar | None, ...] | None"]
    inside: dict[Key, tuple[Scalar | None, ...]] = field(default_factory=dict)
    published: float | None = None
    changed: int = 0


class PlainHost(Host):
    """One table, and queries that are looked at for every key that changed."""

    def __init__(self) -> None:
        super().__init__(())
        self._rows: dict[Key, Row] = {}
        self._ranks: dict[Key, tuple[int, str, int]] = {}
        self._kept: dict[int, _Kept] = {}

    def register(self, number: int, query: StandingQuery, position: Position) -> Answer:
        """Keep a query from now on; one of the same number is replaced."""
        kept = self._kept[number] = _Kept(query, _remembered(query))
        self._queries.put(number, query)
        for key, row in self._rows.items():
            self._place(kept, key, row)
        kept.published, kept.changed = self._truth(kept), position
        self._position = position
        return self.answer(number)

    def unregister(self, number: int, position: Position) -> None:
        """Forget a query."""
        self._kept.pop(number, None)
        self._queries.pop(number)
        self._position = position

    def apply(self, table: str, batch: pa.RecordBatch, position: Position) -> Notifications:
        """Take a batch of updates in."""
        schema = self._table()
        before: dict[Key, Row | None] = {}
        columns = [_plain(column) for column in batch.columns]
        operations, times, sources, sequences = columns[-4:]
        for nth, row in enumerate(zip(*columns[:-4], strict=True)):
            key, rank = schema.key_of(row), (times[nth], sources[nth], sequences[nth])
            if key in self._ranks and rank <= self._ranks[key]:
                continue
            self._ranks[key] = rank
            before.setdefault(key, self._rows.get(key))
            if operations[nth] == Operation.DELETE:
                self._rows.pop(key, None)
            else:
                self._rows[key] = row
        self._position = position
        values: list[tuple[int, float | None]] = []
        rows: list[tuple[int, int, RowKind]] = []
        changed = [key for key, row in before.items() if self._rows.get(key) != row]
        for number, kept in sorted(self._kept.items()):
            for place, key in enumerate(changed):
                former, now = kept.inside.get(key), self._place(kept, key, self._rows.get(key))
                if kept.query.shape is AnswerShape.ROWS and former != now:
                    rows.append((number, place, RowKind.DELETE if now is None else RowKind.UPSERT))
            if kept.query.shape is AnswerShape.NUMBER and changed and self._must_say(kept, kept.query):
                kept.published, kept.changed = self._truth(kept), position
                values.append((number, kept.published))
        shown = [self._rows.get(key) or before[key] or () for key in changed]
        return Notifications(position, _values(values), (self._row_notifications(rows, shown),) if rows else ())

    def apply_all(self, batches: Mapping[str, pa.RecordBatch], position: Position) -> Notifications:
        """The same of several batches."""
        published = [self.apply(table, batch, position) for table, batch in sorted(batches.items())]
        self._position = position
        return merged(published, position)

    def foresee(self, query: StandingQuery, position: Position) -> None:
        """Keys have no slots here."""
        self._position = position

    def check_size(self, query: StandingQuery) -> None:
        """No answer is large here."""

    def family(self, query: StandingQuery) -> None:
        """Nothing is kept for several queries at once."""

    def explain(self, query: StandingQuery) -> ExplainTree | None:
        """Stop publishing a query."""
        return None

    def cold(self, query: StandingQuery) -> bool:
        """Nothing is compiled."""
        return False

    def warm_up(self, query: StandingQuery) -> None:
        """Nothing is compiled."""

    def wake(self, number: int) -> None:
        """Nothing is halted."""

    def answer(self, number: int) -> Answer:
        """Everything published of a query so far."""
        kept = self._kept[number]
        if kept.query.shape is AnswerShape.NUMBER:
            return Answer(number, Position(kept.changed), kept.published)
        return Answer(number, Position(kept.changed), None, self._batch([self._rows[key] for key in kept.inside]))

    def select(self, table: str, region: Region) -> pa.RecordBatch:
        """The rows that lie in a region now."""
        schema = self._table()
        columns = [column.name for column in schema.columns]
        return self._batch(
            [row for row in self._rows.values() if region.contains(dict(zip(columns, row, strict=True)).get)]
        )

    def keys(self) -> list[Key]:
        """The keys of the rows that there are."""
        return [*self._rows]

    def last_of(self, source: str) -> tuple[int, int]:
        """The latest event time, and the greatest sequence number of a source."""
        ranks = self._ranks.values()
        times = [time for time, _, _ in ranks]
        return max(times, default=0), max((sequence for _, who, sequence in ranks if who == source), default=-1)

    def snapshot(self) -> bytes:
        """The whole state."""
        kept = [(number, one.query, one.inside, one.published, one.changed) for number, one in self._kept.items()]
        parts = (self._position, self._time, self._tables, self._queries, self._rows, self._ranks, kept)
        return pickle.dumps(parts)

    def restore(self, body: bytes) -> None:
        """Restore the state from a snapshot."""
        parts = pickle.loads(body)
        self._position, self._time, self._tables, self._queries, self._rows, self._ranks, kept = parts
        self._kept = {
            number: _Kept(query, _remembered(query), inside, published, changed)
            for number, query, inside, published, changed in kept
        }

    def _must_say(self, kept: _Kept, query: StandingQuery) -> bool:
        """The bound is measured against the published value, never against the last sample."""
        truth = self._truth(kept)
        if truth is None or kept.published is None:
            return truth is not kept.published
        return not query.bound.holds(kept.published, truth)

    def _table(self) -> TableSchema:
        (table,) = self._tables.values()
        return table.schema

    def _place(self, kept: _Kept, key: Key, row: Row | None) -> tuple[Scalar | None, ...] | None:
        """Put a row into a query, or take it out; what it gives to the query now."""
        gives = None
        if row is not None:
            gives = kept.given.get(row, _UNKNOWN)
            if gives is _UNKNOWN:
                columns = [column.name for column in self._table().columns]
                values = dict(zip(columns, row, strict=True))
                gives = kept.given[row] = _kind(kept.query).contribution(kept.query, key, values)
        if gives is None:
            kept.inside.pop(key, None)
        else:
            kept.inside[key] = gives
        return gives

    def _truth(self, kept: _Kept) -> float | None:
        return _kind(kept.query).fold(kept.query, kept.inside.values())

    def _row_notifications(self, rows: list[tuple[int, int, RowKind]], shown: list[Row]) -> Rows:
        queries, places, kinds = zip(*rows, strict=True)
        return Rows(
            self._table().name,
            np.array(queries, np.int64),
            np.array(places, np.int64),
            np.array(kinds, np.int8),
            self._batch(shown),
        )

    def _batch(self, rows: list[Row]) -> pa.RecordBatch:
        layout = _layout(self._table())
        columns = zip(*rows, strict=True) if rows else [()] * len(layout)
        arrays = [pa.array(column, kind) for column, kind in zip(columns, layout.types, strict=True)]
        return pa.RecordBatch.from_arrays(arrays, schema=layout)


def _kind(query: StandingQuery) -> TableKind[Any]:
    """The kind of a query; those on several tables are not asked for in the simulation."""
    kind = kind_of(query)
    assert isinstance(kind, TableKind)
    return kind


@lru_cache(maxsize=10_000)
def _layout(table: TableSchema) -> pa.Schema:
    return pa.schema([arrow_field(column) for column in table.columns])


_UNKNOWN: Any = object()
_given: dict[StandingQuery, dict[Row, tuple[Scalar | None, ...] | None]] = {}
_MOST_GIVEN = 4_096
_MOST_QUERIES = 1_024
"""Planned worlds have queries of their own, which no other world asks."""


def _remembered(query: StandingQuery) -> dict[Row, tuple[Scalar | None, ...] | None]:
    """What rows give to a query: all nodes and worlds ask the same."""
    known = _given.get(query)
    if known is None and len(_given) >= _MOST_QUERIES:
        _given.clear()
    if known is None or len(known) > _MOST_GIVEN:
        known = _given[query] = {}
    return known


def _plain(column: pa.Array) -> list[Any]:
    values: list[Any] = (column.view(pa.int64()) if pa.types.is_timestamp(column.type) else column).to_pylist()
    return values


def _values(published: list[tuple[int, float | None]]) -> Values | None:
    if not published:
        return None
    return Values(
        np.array([number for number, _ in published], np.int64),
        np.array([0.0 if value is None else value for _, value in published]),
        np.array([value is not None for _, value in published]),
    )
