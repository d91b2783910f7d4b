"""The whole answer of one join, from the latest state of its tables: what a new subscriber is told.

One side is put in order and searched for each row of the other. A band is searched a little wider than it is, because
of rounding, and then the difference itself decides: right − left as doubles, as everywhere.
"""

import numpy as np
import pyarrow as pa

from slackwater.core.joined import joined_schema
from slackwater.core.query import Join
from slackwater.processing.base import Flags, Floats, Integers, Latest
from slackwater.processing.columns import rows_schema
from slackwater.processing.joined.lowering import FamilyShape, Range, Ranges, lowered
from slackwater.processing.joined.partners import KeyNumbers, partners
from slackwater.processing.matching.base import JoinSide
from slackwater.processing.regions import Sheet

_SLIP = 1e-15
"""More than a rounded sum or difference can be off by, relatively."""


def answer_of(query: Join, left: Latest, right: Latest) -> pa.RecordBatch:
    """All pairs, in the order of the left keys' slots and then the right ones'."""
    shape, ranges = lowered(query)
    nothing: Integers = np.zeros(0, np.int64)
    first, second = (nothing, nothing) if ranges is None else _pairs(shape, ranges, left, right)
    return side_by_side(left.rows.take(pa.array(first)), right.rows.take(pa.array(second)), left, right)


def side_by_side(first: pa.RecordBatch, second: pa.RecordBatch, left: Latest, right: Latest) -> pa.RecordBatch:
    """Rows of both tables as rows of their join."""
    layout = rows_schema(joined_schema(left.schema, right.schema))
    return pa.RecordBatch.from_arrays([*first.columns, *second.columns], schema=layout)


def _pairs(shape: FamilyShape, ranges: Ranges, left: Latest, right: Latest) -> tuple[Integers, Integers]:
    keys = KeyNumbers.of(shape, left.schema, right.schema)
    first, ours = _chosen(shape, ranges, JoinSide.LEFT, left, keys)
    second, theirs = _chosen(shape, ranges, JoinSide.RIGHT, right, keys)
    order = np.argsort(theirs, kind="stable")
    second, theirs = second[order], theirs[order]
    starts, ends = _reach(ours, theirs, ranges.band) if shape.band else _equal(ours, theirs)
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


def _chosen(
    shape: FamilyShape, ranges: Ranges, side: JoinSide, latest: Latest, keys: KeyNumbers
) -> tuple[Integers, Floats]:
    """The places of the rows that fit the ranges of their side, and what they are joined on."""
    sheet = Sheet(latest.rows, np.ones(latest.rows.num_rows, np.bool_))
    join, attributes, there = partners(shape, side, sheet, keys)
    fits: Flags = there
    for column, (low, high) in zip(attributes.T, ranges.of(side), strict=True):
        fits = fits & (low <= column) & (column <= high)
    places = np.flatnonzero(fits)
    return places, join[places]


def _equal(ours: Floats, theirs: Floats) -> tuple[Integers, Integers]:
    return np.searchsorted(theirs, ours, side="left"), np.searchsorted(theirs, ours, side="right")


def _reach(ours: Floats, theirs: Floats, band: Range) -> tuple[Integers, Integers]:
    with np.errstate(over="ignore"):
        low, high = (ours + end for end in band)
        slips = [(np.abs(ours) + (abs(end) if np.isfinite(end) else 0.0)) * _SLIP + 1e-300 for end in band]
        low, high = low - slips[0], high + slips[1]
    return np.searchsorted(theirs, low, side="left"), np.searchsorted(theirs, high, side="right")
