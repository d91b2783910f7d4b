"""Sharded matcher in one process: `Cuts` must lose no result at a seam and find none twice."""

from collections.abc import Callable
from typing import ClassVar

import numpy as np

from slackwater.processing.base import Floats, Integers
from slackwater.processing.matching.band_ssi import BandSSI
from slackwater.processing.matching.base import (
    Affected,
    JoinRows,
    Joins,
    JoinSide,
    Matcher,
    MatcherShape,
    Results,
    check_joins,
    check_rows,
)
from slackwater.processing.matching.select_ssi import SelectSSI
from slackwater.processing.matching.shard import Cuts
from slackwater.processing.matching.tables import RowTable, SlotTable


class Sharded:
    """A matcher made of shards."""

    SHAPES: ClassVar[tuple[bool, ...]] = (True, False)

    def __init__(
        self, shape: MatcherShape, cuts: Cuts | None = None, make: Callable[[MatcherShape], Matcher] | None = None
    ) -> None:
        self._shape = shape
        self.cuts = Cuts(np.array([0.0])) if cuts is None else cuts
        kind = (BandSSI if shape.band else SelectSSI) if make is None else make
        self.parts: list[Matcher] = [kind(shape) for _ in range(self.cuts.shards)]
        self._tables = (RowTable(shape.left), RowTable(shape.right))
        self._numbers = SlotTable("query")
        self._least, self._most = 0.0, 0.0
        """The margin: no query allows a difference below or above."""

    @property
    def shape(self) -> MatcherShape:
        """What its queries have in common."""
        return self._shape

    def add(self, joins: Joins) -> None:
        """Keep these queries from now on, in every shard."""
        check_joins(self._shape, joins)
        self._numbers.give(joins.numbers)
        if len(joins) and self._shape.band:
            self._widen(float(joins.low.min()), float(joins.high.max()))
        for part in self.parts:
            part.add(joins)

    def remove(self, numbers: Integers) -> None:
        """Forget these queries. The margin stays: what was copied does no harm."""
        self._numbers.take(numbers)
        for part in self.parts:
            part.remove(numbers)

    def insert(self, side: JoinSide, rows: JoinRows) -> None:
        """Have these rows, where they belong."""
        check_rows(self._shape, side, rows)
        self._tables[side].add(rows.ids, rows.join, rows.attributes)
        for part, own in zip(self.parts, self._places(side, rows), strict=True):
            part.insert(side, _some(rows, own))

    def delete(self, side: JoinSide, ids: Integers) -> None:
        """No longer have these rows."""
        rows = self.rows(side, ids)
        self._tables[side].slots.take(ids)
        for part, own in zip(self.parts, self._places(side, rows), strict=True):
            part.delete(side, ids[own])

    def rows(self, side: JoinSide, ids: Integers) -> JoinRows:
        """Present rows by their ids."""
        table = self._tables[side]
        slots = table.slots.find(ids)
        return JoinRows(ids, table.join[slots], table.attributes[slots])

    def match(self, side: JoinSide, rows: JoinRows) -> Affected:
        """The queries that have results with each row."""
        check_rows(self._shape, side, rows)
        at, queries = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
        for part, own in zip(self.parts, self._places(side, rows), strict=True):
            if len(own):
                found = part.match(side, _some(rows, own))
                at.append(np.repeat(own, np.diff(found.starts)))
                queries.append(found.queries)
        # A right row may affect a query in several shards: once is enough.
        pairs = np.unique(np.stack((np.concatenate(at), np.concatenate(queries))), axis=1)
        starts = np.searchsorted(pairs[0], np.arange(len(rows) + 1))
        return Affected(starts.astype(np.int64), pairs[1])

    def count(self, side: JoinSide, rows: JoinRows) -> Integers:
        """How many queries have results with each row."""
        return np.diff(self.match(side, rows).starts)

    def results(self, side: JoinSide, rows: JoinRows) -> Results:
        """Every result of every query with each row; no two shards find the same."""
        columns: tuple[list[Integers], ...] = (
            [np.zeros(0, np.int64)],
            [np.zeros(0, np.int64)],
            [np.zeros(0, np.int64)],
        )
        for part, own in zip(self.parts, self._places(side, rows), strict=True):
            if len(own):
                found = part.results(side, _some(rows, own))
                for column, values in zip(columns, (own[found.rows], found.queries, found.partners), strict=True):
                    column.append(values)
        at, queries, partners = (np.concatenate(column) for column in columns)
        by = np.lexsort((partners, queries, at))
        return Results(at[by], queries[by], partners[by])

    def _places(self, side: JoinSide, rows: JoinRows) -> list[Integers]:
        """For each shard which of the rows it has, or has to be asked about."""
        if side is JoinSide.LEFT:
            owners = self.cuts.owners(rows.join, rows.ids)
            return [np.flatnonzero(owners == shard) for shard in range(self.cuts.shards)]
        first, last = self._reading(rows.join, self._least, self._most)
        return [np.flatnonzero((first <= shard) & (shard <= last)) for shard in range(self.cuts.shards)]

    def _reading(self, join: Floats, least: float, most: float) -> tuple[Integers, Integers]:
        return self.cuts.reached(join, least, most) if self._shape.band else self.cuts.readers(join, join)

    def _widen(self, low: float, high: float) -> None:
        least, most = min(low, self._least), max(high, self._most)
        if (least, most) == (self._least, self._most):
            return
        table = self._tables[JoinSide.RIGHT]
        slots = table.slots.all()
        rows = JoinRows(table.ids[slots], table.join[slots], table.attributes[slots])
        before = self._places(JoinSide.RIGHT, rows)
        self._least, self._most = least, most
        for part, had, has in zip(self.parts, before, self._places(JoinSide.RIGHT, rows), strict=True):
            part.insert(JoinSide.RIGHT, _some(rows, np.setdiff1d(has, had)))

    def _check(self) -> None:
        for part in self.parts:
            part._check()
        for side in JoinSide:
            table = self._tables[side]
            slots = table.slots.all()
            rows = JoinRows(table.ids[slots], table.join[slots], table.attributes[slots])
            places = self._places(side, rows)
            if side is JoinSide.LEFT:
                assert sum(map(len, places)) == len(rows), "a left row has not exactly one owner"
            for part, own in zip(self.parts, places, strict=True):
                assert np.array_equal(part.rows(side, rows.ids[own]).join, rows.join[own])


def _some(rows: JoinRows, own: Integers) -> JoinRows:
    return JoinRows(rows.ids[own], rows.join[own], rows.attributes[own])
