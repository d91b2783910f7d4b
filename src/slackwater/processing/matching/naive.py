"""NAIVE: every query against every pair of rows, the slow test oracle of the others.

>>> import numpy as np
>>> from slackwater.processing.matching.base import BAND, JoinRows, JoinSide, band_joins
>>> naive = NaiveMatcher(BAND)
>>> naive.add(band_joins(np.array([1, 2]), np.array([-3.0, 10.0]), np.array([5.0, 20.0])))
>>> naive.insert(JoinSide.RIGHT, JoinRows(np.array([7, 8]), np.array([102.0, 104.0]), np.zeros((2, 0))))
>>> unit = JoinRows(np.array([1]), np.array([100.0]), np.zeros((1, 0)))
>>> naive.match(JoinSide.LEFT, unit).queries.tolist()     # 102 − 100 and 104 − 100 lie in [−3, 5]
[1]
>>> naive.results(JoinSide.LEFT, unit).partners.tolist()
[7, 8]
"""

from collections.abc import Iterator

import numpy as np

from slackwater.core.errors import MatchingError
from slackwater.processing.base import Integers
from slackwater.processing.matching.base import (
    Affected,
    JoinRows,
    Joins,
    JoinSide,
    MatcherShape,
    Results,
    check_joins,
    check_rows,
)

Range = tuple[float, float]
Row = tuple[float, tuple[float, ...]]


class NaiveMatcher:
    """Dictionaries and loops."""

    def __init__(self, shape: MatcherShape) -> None:
        self._shape = shape
        self._queries: dict[int, tuple[Range, list[Range], list[Range]]] = {}
        self._rows: tuple[dict[int, Row], dict[int, Row]] = ({}, {})

    @property
    def shape(self) -> MatcherShape:
        """What its queries have in common."""
        return self._shape

    def add(self, joins: Joins) -> None:
        """Keep these queries from now on."""
        check_joins(self._shape, joins)
        there = [number for number in joins.numbers.tolist() if number in self._queries]
        if there:
            raise MatchingError(f"query {there[0]} is there already: remove it first")
        for k, number in enumerate(joins.numbers.tolist()):
            left = list(zip(joins.left_low[k].tolist(), joins.left_high[k].tolist(), strict=True))
            right = list(zip(joins.right_low[k].tolist(), joins.right_high[k].tolist(), strict=True))
            self._queries[number] = ((float(joins.low[k]), float(joins.high[k])), left, right)

    def remove(self, numbers: Integers) -> None:
        """Forget these queries."""
        _forget(self._queries, numbers, "query")

    def insert(self, side: JoinSide, rows: JoinRows) -> None:
        """Have these rows."""
        check_rows(self._shape, side, rows)
        present = self._rows[side]
        there = [row for row in rows.ids.tolist() if row in present]
        if there or len(set(rows.ids.tolist())) != len(rows):
            raise MatchingError(f"row {there[0] if there else 'id'} is there already: delete it first")
        for row, join, attributes in zip(rows.ids.tolist(), rows.join.tolist(), rows.attributes.tolist(), strict=True):
            present[row] = (join, tuple(attributes))

    def delete(self, side: JoinSide, ids: Integers) -> None:
        """No longer have these rows."""
        _forget(self._rows[side], ids, "row")

    def rows(self, side: JoinSide, ids: Integers) -> JoinRows:
        """Present rows by their ids."""
        present = self._rows[side]
        absent = [row for row in ids.tolist() if row not in present]
        if absent:
            raise MatchingError(f"row {absent[0]} is not there")
        found = [present[row] for row in ids.tolist()]
        attributes = np.array([row[1] for row in found]).reshape(len(ids), self._shape.attributes(side))
        return JoinRows(ids, np.array([row[0] for row in found]), attributes)

    def match(self, side: JoinSide, rows: JoinRows) -> Affected:
        """The queries that have results with each row."""
        found = self.results(side, rows)
        pairs = sorted(set(zip(found.rows.tolist(), found.queries.tolist(), strict=True)))
        starts = np.searchsorted(np.array([row for row, _ in pairs], np.int64), np.arange(len(rows) + 1))
        return Affected(starts.astype(np.int64), np.array([query for _, query in pairs], np.int64))

    def count(self, side: JoinSide, rows: JoinRows) -> Integers:
        """How many queries have results with each row."""
        return np.diff(self.match(side, rows).starts)

    def results(self, side: JoinSide, rows: JoinRows) -> Results:
        """Every result of every query with each row."""
        check_rows(self._shape, side, rows)
        found = sorted(self._found(side, rows))
        columns = np.array(found, np.int64).reshape(len(found), 3)
        return Results(columns[:, 0], columns[:, 1], columns[:, 2])

    def _found(self, side: JoinSide, rows: JoinRows) -> Iterator[tuple[int, int, int]]:
        for k, (join, attributes) in enumerate(zip(rows.join.tolist(), rows.attributes.tolist(), strict=True)):
            own: Row = (join, tuple(attributes))
            for partner, other in self._rows[side.other].items():
                left, right = (own, other) if side is JoinSide.LEFT else (other, own)
                for number, ((low, high), left_ranges, right_ranges) in self._queries.items():
                    if (
                        (low <= right[0] - left[0] <= high if self._shape.band else left[0] == right[0])
                        and _inside(left[1], left_ranges)
                        and _inside(right[1], right_ranges)
                    ):
                        yield k, number, partner

    def _check(self) -> None:
        """There is nothing that could be wrong."""


def _inside(values: tuple[float, ...], ranges: list[Range]) -> bool:
    return all(low <= value <= high for value, (low, high) in zip(values, ranges, strict=True))


def _forget(
    kept: dict[int, Range] | dict[int, Row] | dict[int, tuple[Range, list[Range], list[Range]]],
    gone: Integers,
    what: str,
) -> None:
    numbers = gone.tolist()
    absent = [number for number in numbers if number not in kept]
    if absent or len(set(numbers)) != len(numbers):
        raise MatchingError(f"{what} {absent[0] if absent else 'twice in one batch'} is not there")
    for number in numbers:
        del kept[number]
