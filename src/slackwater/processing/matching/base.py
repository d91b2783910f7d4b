"""Matcher protocol: the standing joins that have new results for an arriving row.

Design
    Two tables, *left* and *right*, are joined on one number each. All queries of a matcher have one `MatcherShape`: a
    *band* join asks that right.join − left.join lies in [low, high], a *select-join* that the two are equal; both may
    ask besides that attributes of the left row and of the right row lie in ranges of the query's own. Everything is in
    columns; a query is known by its number, a row by its id.

    A matcher is an index: it answers which queries a row is a partner for, and the caller reports the rows and queries
    that there are. What a host does with a change of a table is `change`, below: a row that goes is matched as it was,
    a row that comes as it is, an updated row both ways.

Contract (kept by every matcher, tested in `tests/contracts/test_matchers.py`)

1.  *Exact.* `match(side, rows)` gives for each row the queries that have at least one result with it: those for which
    some present row of the other side satisfies, with this row, the join condition and all ranges. Nothing is missing,
    nothing too much. The difference of a band is the rounded difference of the two doubles, as SQL computes it.
2.  *Matching changes nothing.* The rows asked about need not be present and are not made so.
3.  *A batch is its rows.* The answer for a batch is the answers for its rows one at a time. Rows of one batch are of
    one side, so they are not each other's partners.
4.  *In order.* The queries of a row come in rising order of their numbers, results in the order of row, query and
    partner: an answer is a function of what is present, whatever came when.
5.  *Both sides alike.* Rows may come, go and change on both sides; queries may come and go at any time.
6.  *Three outputs.* The affected queries, how many of them, or the result rows; they never contradict each other.
7.  *Ends.* Ranges are closed; an end may be infinite. A range with nothing in it, a number or id that is there already,
    one that is not there, and a NaN are refused with a `MatchingError`, and nothing has then changed.
    Rows with a null in a column that is asked about have no results: the caller leaves them out.
8.  *`_check()`* raises AssertionError if an inner promise does not hold. It may be slow.

References
    P. K. Agarwal, J. Xie, J. Yang, H. Yu, Scalable continuous query processing by tracking hotspots, VLDB 2006; J. Xie,
    dissertation, chapter 4: the methods and their names.
"""

from dataclasses import dataclass
from enum import IntEnum
from typing import Protocol

import numpy as np

from slackwater.core.errors import MatchingError
from slackwater.processing.base import Floats, Integers


class JoinSide(IntEnum):
    """Which of the two tables."""

    LEFT = 0
    RIGHT = 1

    @property
    def other(self) -> "JoinSide":
        """The table across the join."""
        return JoinSide.RIGHT if self is JoinSide.LEFT else JoinSide.LEFT


@dataclass(frozen=True, slots=True)
class MatcherShape:
    """What the queries of a matcher have in common: band or equality, and how many attributes each side selects on."""

    band: bool
    left: int = 0
    right: int = 0

    def attributes(self, side: JoinSide) -> int:
        """How many attributes of a side there are ranges for."""
        return self.left if side is JoinSide.LEFT else self.right


BAND = MatcherShape(band=True)
"""Band joins without selections."""
SELECT = MatcherShape(band=False, left=1, right=1)
"""Select-joins with one range on each side."""


@dataclass(frozen=True, slots=True, eq=False)
class Joins:
    """Standing joins in columns.

    `low` and `high` bound right.join − left.join; of a select-join they are 0. The ranges of the attributes are arrays
    of queries × attributes.
    """

    numbers: Integers
    low: Floats
    high: Floats
    left_low: Floats
    left_high: Floats
    right_low: Floats
    right_high: Floats

    def __len__(self) -> int:
        return len(self.numbers)

    def ranges(self, side: JoinSide) -> tuple[Floats, Floats]:
        """The ranges of the attributes of a side."""
        if side is JoinSide.LEFT:
            return self.left_low, self.left_high
        return self.right_low, self.right_high


@dataclass(frozen=True, slots=True, eq=False)
class JoinRows:
    """Rows of one side in columns: id, the number they are joined on, and rows × attributes."""

    ids: Integers
    join: Floats
    attributes: Floats

    def __len__(self) -> int:
        return len(self.ids)


@dataclass(frozen=True, slots=True, eq=False)
class Affected:
    """The affected queries of each row of a batch: those of row k are `queries[starts[k]:starts[k + 1]]`."""

    starts: Integers
    queries: Integers

    def of(self, row: int) -> Integers:
        """The queries of one row."""
        return self.queries[self.starts[row] : self.starts[row + 1]]


@dataclass(frozen=True, slots=True, eq=False)
class Results:
    """Result rows: row `rows[k]` of the batch and the partner with id `partners[k]` are a result of `queries[k]`."""

    rows: Integers
    queries: Integers
    partners: Integers

    def __len__(self) -> int:
        return len(self.rows)


class Matcher(Protocol):
    """One way of finding affected queries; see the module for what is promised."""

    @property
    def shape(self) -> MatcherShape:
        """What its queries have in common."""
        ...

    def add(self, joins: Joins) -> None:
        """Keep these queries from now on."""
        ...

    def remove(self, numbers: Integers) -> None:
        """Forget these queries."""
        ...

    def insert(self, side: JoinSide, rows: JoinRows) -> None:
        """Have these rows."""
        ...

    def delete(self, side: JoinSide, ids: Integers) -> None:
        """No longer have these rows."""
        ...

    def rows(self, side: JoinSide, ids: Integers) -> JoinRows:
        """Present rows by their ids."""
        ...

    def match(self, side: JoinSide, rows: JoinRows) -> Affected:
        """The queries that have results with each row."""
        ...

    def count(self, side: JoinSide, rows: JoinRows) -> Integers:
        """How many queries have results with each row."""
        ...

    def results(self, side: JoinSide, rows: JoinRows) -> Results:
        """Every result of every query with each row."""
        ...

    def _check(self) -> None:
        """Raise AssertionError if an inner promise does not hold."""
        ...


def change(matcher: Matcher, side: JoinSide, gone: Integers, come: JoinRows) -> tuple[Affected, Affected]:
    """Take a batch of changes of one table in: which queries lose results with the rows that go, which gain with those
    that come. An updated row is in both, under the same id.
    """
    lost = matcher.match(side, matcher.rows(side, gone))
    gained = matcher.match(side, come)
    matcher.delete(side, gone)
    matcher.insert(side, come)
    return lost, gained


def band_joins(numbers: Integers, low: Floats, high: Floats) -> Joins:
    """Band joins without selections."""
    none = np.zeros((len(numbers), 0))
    return Joins(numbers, low, high, none, none, none, none)


def select_joins(
    numbers: Integers, left_low: Floats, left_high: Floats, right_low: Floats, right_high: Floats
) -> Joins:
    """Select-joins with one range on each side."""
    zeros, column = np.zeros(len(numbers)), (len(numbers), 1)
    return Joins(
        numbers,
        zeros,
        zeros,
        left_low.reshape(column),
        left_high.reshape(column),
        right_low.reshape(column),
        right_high.reshape(column),
    )


def check_joins(shape: MatcherShape, joins: Joins) -> None:
    """Refuse queries that do not fit the shape or that nothing could satisfy."""
    count = len(joins)
    if len(np.unique(joins.numbers)) != count:
        raise MatchingError("a query number stands twice in one batch: give every query a number of its own")
    for side in JoinSide:
        for ends in joins.ranges(side):
            if ends.shape != (count, shape.attributes(side)):
                raise MatchingError(
                    f"expected ranges for {count} queries × {shape.attributes(side)} attributes"
                    f" of the {side.name.lower()} side, got {ends.shape}"
                )
    pairs = [
        ("join", joins.low, joins.high),
        ("left", *joins.ranges(JoinSide.LEFT)),
        ("right", *joins.ranges(JoinSide.RIGHT)),
    ]
    for name, low, high in pairs:
        wrong = ~((low <= high) & (low < np.inf) & (high > -np.inf))
        if wrong.any():
            first = int(np.argwhere(wrong)[0][0])
            raise MatchingError(
                f"query {joins.numbers[first]}: nothing lies in its {name} range [{low[first]}, {high[first]}];"
                " leave it out, it can have no results"
            )
    if not shape.band and (joins.low.any() or joins.high.any()):
        raise MatchingError(
            "a select-join compares for equality: its low and high must be 0; use a band shape for bands"
        )


def check_rows(shape: MatcherShape, side: JoinSide, rows: JoinRows) -> None:
    """Refuse rows that do not fit the shape or hold what is no number."""
    if rows.attributes.shape != (len(rows), shape.attributes(side)):
        raise MatchingError(
            f"expected {len(rows)} rows × {shape.attributes(side)} attributes of the {side.name.lower()} side,"
            f" got {rows.attributes.shape}"
        )
    if not np.isfinite(rows.join).all() or np.isnan(rows.attributes).any():
        raise MatchingError("a row has a NaN or an infinite join value: leave out rows that cannot match")
