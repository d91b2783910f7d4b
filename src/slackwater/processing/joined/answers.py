"""Join snapshot: the whole answer of one join from the latest state of its tables, for a new subscriber.

Both tables are put in the order of what they are compared by, and one is searched for each row of the other. A band is
searched a little wider than it is, because of rounding, and then the difference itself decides: right − left as
doubles, as everywhere. What a shape sees of its tables is remembered until they change: subscribers come in crowds.

How many pairs there are is known before any is written down. Two tables of 100 000 rows have ten thousand million, so
a caller that serves strangers must `check` first.
"""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from slackwater.core.errors import AnswerTooLarge
from slackwater.core.query import Join
from slackwater.kinds.join.schema import joined_schema
from slackwater.processing.base import Flags, Floats, Integers, Latest
from slackwater.processing.columns import rows_schema
from slackwater.processing.joined.lower import FamilyShape, JoinRanges, Range, lowered
from slackwater.processing.joined.partners import KeyNumbers, partners
from slackwater.processing.matching.base import JoinSide
from slackwater.processing.regions import Sheet

_SLIP = 1e-15
"""More than a rounded sum or difference can be off by, relatively."""
_SEEN = 4
"""Of so many shapes it is remembered what they see."""


@dataclass(frozen=True, slots=True, eq=False)
class _Side:
    """Rows that can be partners, in the order of what they are joined on: their places in the table, and attributes."""

    rows: pa.RecordBatch
    places: Integers
    join: Floats
    attributes: Floats

    def chosen(self, ranges: tuple[Range, ...]) -> tuple[Integers, Floats]:
        """The places and join values of those that fit all ranges."""
        if not ranges:
            return self.places, self.join
        fits: Flags = np.ones(len(self.places), np.bool_)
        for column, (low, high) in zip(self.attributes.T, ranges, strict=False):
            fits &= (low <= column) & (column <= high)
        return self.places[fits], self.join[fits]


class Answers:
    """Answers of joins, from scratch."""

    def __init__(self) -> None:
        self._seen: dict[FamilyShape, tuple[_Side, _Side]] = {}

    def answer(self, query: Join, left: Latest, right: Latest) -> pa.RecordBatch:
        """All pairs, in the order of the left keys' slots and then the right ones'."""
        shape, ranges = lowered(query)
        nothing: Integers = np.zeros(0, np.int64)
        first, second = (nothing, nothing) if ranges is None else self._pairs(shape, ranges, left, right)
        return side_by_side(left.rows.take(pa.array(first)), right.rows.take(pa.array(second)), left, right)

    def check(self, query: Join, left: Latest, right: Latest, most: int) -> None:
        """Refuse a join of more pairs than that; a few whose difference is an end of the band may be counted too."""
        shape, ranges = lowered(query)
        if ranges is None or left.rows.num_rows * right.rows.num_rows <= most:
            return
        _, _, starts, ends = self._found(shape, ranges, left, right)
        pairs = int((ends - starts).sum())
        if pairs > most:
            raise AnswerTooLarge(
                f"the answer of this join has about {pairs:,} pairs of rows, and at most {most:,} are kept; "
                f"ask for fewer with WHERE, or with a narrower range"
            )

    def steps(self, query: Join, left: Latest, right: Latest, rows: int) -> int:
        """How many pairs of rows a matcher looks at for a join when so many rows of either side change, about."""
        shape, ranges = lowered(query)
        if ranges is None:
            return 0
        steps = 0.0
        # Across, a matcher searches by what is compared, and of an equality by the first range; it looks at the rest.
        searched = 0 if shape.band else 1
        for side in JoinSide:
            chosen = {
                one: self._sides(shape, left, right)[one].chosen(
                    ranges.of(one) if one is side else ranges.of(one)[:searched]
                )
                for one in JoinSide
            }
            ours, theirs = (chosen[one][1] for one in JoinSide)
            starts, ends = _reach(ours, theirs, ranges.band) if shape.band else _equal(ours, theirs)
            there = max((left, right)[side].rows.num_rows, 1)
            # Each as it was and as it is.
            steps += 2 * float((ends - starts).sum()) * min(1.0, rows / there)
        return int(steps)

    def forget(self, shape: FamilyShape) -> None:
        """Remember nothing of what this shape sees."""
        self._seen.pop(shape, None)

    def _pairs(self, shape: FamilyShape, ranges: JoinRanges, left: Latest, right: Latest) -> tuple[Integers, Integers]:
        (first, ours), (second, theirs), starts, ends = self._found(shape, ranges, left, right)
        counts = ends - starts
        at = np.repeat(np.arange(len(ours)), counts)
        found = np.arange(len(at)) - np.repeat(np.cumsum(counts) - counts, counts) + starts[at]
        if shape.band:
            low, high = ranges.band
            with np.errstate(over="ignore"):
                difference = theirs[found] - ours[at]
            within = (low <= difference) & (difference <= high)
            at, found = at[within], found[within]
        by = np.lexsort((second[found], first[at]))
        return first[at][by], second[found][by]

    def _found(
        self, shape: FamilyShape, ranges: JoinRanges, left: Latest, right: Latest
    ) -> tuple[tuple[Integers, Floats], tuple[Integers, Floats], Integers, Integers]:
        """The rows of both sides that fit, and where among the right ones each left one's partners begin and end."""
        sides = self._sides(shape, left, right)
        own, across = (one.chosen(ranges.of(side)) for side, one in zip(JoinSide, sides, strict=True))
        bounds = _reach(own[1], across[1], ranges.band) if shape.band else _equal(own[1], across[1])
        return own, across, *bounds

    def _sides(self, shape: FamilyShape, left: Latest, right: Latest) -> tuple[_Side, _Side]:
        known = self._seen.pop(shape, None)
        if known is None or known[0].rows is not left.rows or known[1].rows is not right.rows:
            keys = KeyNumbers.of(shape, left.schema, right.schema)
            known = (_side(shape, JoinSide.LEFT, left, keys), _side(shape, JoinSide.RIGHT, right, keys))
        # The last one asked for stands last; what has not been asked for longest goes first.
        self._seen[shape] = known
        while len(self._seen) > _SEEN:
            del self._seen[next(iter(self._seen))]
        return known


def side_by_side(first: pa.RecordBatch, second: pa.RecordBatch, left: Latest, right: Latest) -> pa.RecordBatch:
    """Rows of both tables as rows of their join."""
    layout = rows_schema(joined_schema(left.schema, right.schema))
    return pa.RecordBatch.from_arrays([*first.columns, *second.columns], schema=layout)


def _side(shape: FamilyShape, side: JoinSide, latest: Latest, keys: KeyNumbers) -> _Side:
    sheet = Sheet(latest.rows, np.ones(latest.rows.num_rows, np.bool_))
    join, attributes, there = partners(shape, side, sheet, keys)
    places = np.flatnonzero(there)
    places = places[np.argsort(join[places], kind="stable")]
    return _Side(latest.rows, places, join[places], attributes[places])


def _equal(ours: Floats, theirs: Floats) -> tuple[Integers, Integers]:
    return np.searchsorted(theirs, ours, side="left"), np.searchsorted(theirs, ours, side="right")


def _reach(ours: Floats, theirs: Floats, band: Range) -> tuple[Integers, Integers]:
    with np.errstate(over="ignore"):
        low, high = (ours + end for end in band)
        slips = [(np.abs(ours) + (abs(end) if np.isfinite(end) else 0.0)) * _SLIP + 1e-300 for end in band]
        low, high = low - slips[0], high + slips[1]
    return np.searchsorted(theirs, low, side="left"), np.searchsorted(theirs, high, side="right")
