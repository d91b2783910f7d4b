"""Indexed matcher, the base class of all matchers but NAIVE: row and query tables, ordered rows and three outputs.

A matcher of this kind names in `_probe` the queries that *may* be affected by each row, without missing one:

- of a band join, those whose band holds a difference to some row across;
- of a select-join, those whose first range on the row's own side holds it, and whose first range across holds the first
  attribute of some row equal to it. Sides without an attribute have one made up, which every range holds.

With no more attributes than that, these *are* the affected queries. Otherwise each is confirmed by walking the rows
across that its join condition allows, as far as the first one that satisfies all ranges.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import ClassVar

import numpy as np

from slackwater.kernels.match_order import arrange, interleave
from slackwater.kernels.partners import walk
from slackwater.processing.base import Floats, Integers
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
from slackwater.processing.matching.order import PackedOrder
from slackwater.processing.matching.result_limits import Labour, Parts, Slices
from slackwater.processing.matching.tables import QueryTable, RowTable

Found = tuple[Integers, Integers, Integers]
"""Where in the third array the slots of each row's queries begin, how many they are, and the array."""


class IndexedMatcher(ABC):
    """Rows, queries and outputs; subclasses add the probe, see the module."""

    SHAPES: ClassVar[tuple[bool, ...]] = (True, False)
    """The shapes it is for: band, select-join, or both."""

    def __init__(self, shape: MatcherShape) -> None:
        self._shape = shape
        least = 0 if shape.band else 1
        self._widths = (max(shape.left, least), max(shape.right, least))
        self._queries = QueryTable(*self._widths)
        self._have_no_rows()
        self._certain = shape.left + shape.right == 0 if shape.band else max(shape.left, shape.right) <= 1

    @property
    def shape(self) -> MatcherShape:
        """What its queries have in common."""
        return self._shape

    def __len__(self) -> int:
        return len(self._queries)

    def add(self, joins: Joins) -> None:
        """Keep these queries from now on."""
        check_joins(self._shape, joins)
        lows = tuple(_padded(joins.ranges(side)[0], self._widths[side], -np.inf) for side in JoinSide)
        highs = tuple(_padded(joins.ranges(side)[1], self._widths[side], np.inf) for side in JoinSide)
        slots = self._queries.add(joins.numbers, joins.low, joins.high, (lows[0], lows[1]), (highs[0], highs[1]))
        self._added(slots)

    def remove(self, numbers: Integers) -> None:
        """Forget these queries."""
        self._removed(self._queries.slots.take(numbers))

    def insert(self, side: JoinSide, rows: JoinRows) -> None:
        """Have these rows."""
        check_rows(self._shape, side, rows)
        attributes = self._attributes(side, rows)
        slots = self._tables[side].add(rows.ids, rows.join, attributes)
        self._orders[side].insert(rows.join, self._second(attributes), slots)
        self._rows_came(side, rows.join)

    def delete(self, side: JoinSide, ids: Integers) -> None:
        """No longer have these rows."""
        table = self._tables[side]
        slots = table.slots.take(ids)
        join = table.join[slots]
        self._orders[side].delete(join, self._second(table.attributes[slots]), slots)
        self._rows_went(side, join)

    def forget_rows(self) -> None:
        """Have no rows on either side."""
        self._have_no_rows()

    def _have_no_rows(self) -> None:
        self._tables = (RowTable(self._widths[0]), RowTable(self._widths[1]))
        self._orders = (PackedOrder(), PackedOrder())

    def rows(self, side: JoinSide, ids: Integers) -> JoinRows:
        """Present rows by their ids."""
        table = self._tables[side]
        slots = table.slots.find(ids)
        return JoinRows(ids, table.join[slots], table.attributes[slots, : self._shape.attributes(side)])

    def match(self, side: JoinSide, rows: JoinRows) -> Affected:
        """The queries that have results with each row."""
        check_rows(self._shape, side, rows)
        attributes = self._attributes(side, rows)
        offsets, lengths, found = self._probe(side, rows.join, attributes)
        if not self._certain:
            offsets, lengths, found = self._confirmed(side, rows.join, attributes, offsets, lengths, found)
        starts, queries = np.empty(len(rows) + 1, np.int64), np.empty(int(lengths.sum()), np.int64)
        arrange(offsets, lengths, found, self._queries.numbers, starts, queries)
        return Affected(starts, queries)

    def count(self, side: JoinSide, rows: JoinRows) -> Integers:
        """How many queries have results with each row."""
        return np.diff(self.match(side, rows).starts)

    def results(self, side: JoinSide, rows: JoinRows) -> Results:
        """Every result of every query with each row."""
        return self.most_results(side, rows, None)[0]

    def most_results(
        self, side: JoinSide, rows: JoinRows, most: int | None, labour: Labour | None = None
    ) -> tuple[Results, Integers]:
        """The same; where that would be more than `most` results, without those of the queries named second.

        These are queries with many results. Where finding them takes more steps than `labour` has left, queries that
        took most are named there and *removed*; their results are left out too.
        """
        check_rows(self._shape, side, rows)
        attributes, labour = self._attributes(side, rows), labour or Labour(None)
        parts, without, slices = Parts(), np.zeros(0, np.int64), Slices(len(rows), len(self))
        for start, stop in slices:
            pair_rows, queries = self._pairs(side, rows.join, attributes, start, stop)
            slices.found(len(queries))
            heavy, room = without, max(len(queries), 1024)
            while len(queries):
                if len(heavy):
                    others = ~np.isin(queries, heavy)
                    pair_rows, queries, heavy = pair_rows[others], queries[others], heavy[:0]
                if labour.given_up:
                    heavy = labour.leave_all_out(queries)
                    self.remove(heavy)
                    parts.drop(heavy)
                    break
                slots = self._queries.slots.find(queries)
                end, pairs, partners, tired = self._walk(
                    side, rows.join, attributes, pair_rows, slots, room, labour, every=True
                )
                ids = self._tables[side.other].ids[partners]
                by = np.lexsort((ids, pairs))
                pairs = pairs[by]
                parts.add(pair_rows[pairs], queries[pairs], ids[by])
                pair_rows, queries = pair_rows[end:], queries[end:]
                if tired:
                    heavy = labour.leave_out(self._queries.numbers)
                    self.remove(heavy)
                    room //= 2
                elif most is not None and (len(parts) > most or (not len(pairs) and len(queries) and room > most)):
                    # Or one pair alone has more partners than that.
                    heavy = parts.heaviest(most) if len(parts) > most else queries[:1]
                    without = np.concatenate((without, heavy))
                if len(heavy):
                    parts.drop(heavy)
                room *= 2
        return Results(*parts.all()), without

    def _pairs(
        self, side: JoinSide, join: Floats, attributes: Floats, start: int, stop: int
    ) -> tuple[Integers, Integers]:
        """Of the rows from `start` to `stop` those pairs of row and query, by number, that may have results."""
        offsets, lengths, found = self._probe(side, join[start:stop], attributes[start:stop])
        starts, queries = np.empty(stop - start + 1, np.int64), np.empty(int(lengths.sum()), np.int64)
        arrange(offsets, lengths, found, self._queries.numbers, starts, queries)
        return np.repeat(np.arange(start, stop), lengths), queries

    @abstractmethod
    def _probe(self, side: JoinSide, join: Floats, attributes: Floats) -> Found:
        """The slots of the queries that may be affected by each row."""

    def _added(self, slots: Integers) -> None:  # noqa: B027  # not every matcher has an index of queries
        """Queries have come into the table."""

    def _removed(self, slots: Integers) -> None:  # noqa: B027
        """Queries have left the table; their columns can still be read."""

    def _rows_came(self, side: JoinSide, join: Floats) -> None:  # noqa: B027
        """Rows have come into the order of their side."""

    def _rows_went(self, side: JoinSide, join: Floats) -> None:  # noqa: B027
        """Rows have left the order of their side."""

    def _attributes(self, side: JoinSide, rows: JoinRows) -> Floats:
        return np.ascontiguousarray(_padded(rows.attributes, self._widths[side], 0.0))

    def _second(self, attributes: Floats) -> Floats:
        return np.zeros(len(attributes)) if self._shape.band else np.ascontiguousarray(attributes[:, 0])

    def _confirmed(
        self, side: JoinSide, join: Floats, attributes: Floats, offsets: Integers, lengths: Integers, found: Integers
    ) -> Found:
        starts = np.concatenate((np.zeros(1, np.int64), np.cumsum(lengths)))
        pair_rows = np.repeat(np.arange(len(lengths)), lengths)
        slots = found[np.repeat(offsets - starts[:-1], lengths) + np.arange(starts[-1])]
        # At most one of each pair: there is room for all.
        _, pairs, _, _ = self._walk(side, join, attributes, pair_rows, slots, len(slots), Labour(None), every=False)
        kept = np.bincount(pair_rows[pairs], minlength=len(lengths)).astype(np.int64)
        return np.cumsum(kept) - kept, kept, slots[pairs]

    def _walk(
        self,
        side: JoinSide,
        join: Floats,
        attributes: Floats,
        pair_rows: Integers,
        slots: Integers,
        room: int,
        labour: Labour,
        *,
        every: bool,
    ) -> tuple[int, Integers, Integers, bool]:
        """The partners of pairs of row and query, as far as there is room for them and steps are left.

        Returns the pair before which it ended, and whether the steps ran out.
        """
        queries, other = self._queries, side.other
        steps, out = np.empty(len(slots), np.int64), (np.empty(room, np.int64), np.empty(room, np.int64))
        end, used, tired = walk(
            self._orders[other].packed,
            self._shape.band,
            side is JoinSide.RIGHT,
            join,
            attributes,
            pair_rows,
            slots,
            queries.low,
            queries.high,
            queries.lows[side],
            queries.highs[side],
            queries.lows[other],
            queries.highs[other],
            self._tables[other].attributes,
            every,
            labour.left,
            steps,
            *out,
        )
        labour.add(slots[: end + tired], steps[: end + tired])
        return end, out[0][:used], out[1][:used], tired

    def _check(self) -> None:
        """Raise AssertionError if an inner promise does not hold."""
        for side in JoinSide:
            order, table = self._orders[side], self._tables[side]
            order._check()
            first, second, slots, _ = order.entries()
            assert np.array_equal(np.sort(slots), table.slots.all())
            assert np.array_equal(first, table.join[slots])
            assert np.array_equal(second, self._second(table.attributes[slots]))


def collect(
    rows: int, asked: int, probe: Callable[[Integers, Integers, Integers, Integers], None], room: int = 0
) -> Found:
    """Call a probing kernel until the rows that are asked about are done.

    It is handed a cursor (next row, written so far), the offsets and lengths to fill in, and the array to write to; it
    stops before a row for which there is no room, or no `room` left.
    """
    cursor = np.zeros(2, np.int64)
    offsets, lengths = np.zeros(rows, np.int64), np.zeros(rows, np.int64)
    out = np.empty(max(16 * asked, 64, room), np.int64)
    while True:
        probe(cursor, offsets, lengths, out)
        if cursor[0] >= asked:
            return offsets, lengths, out
        # As much as the rows to come need if they are like those before them.
        done, used = int(cursor[0]), int(cursor[1])
        likely = 5 * used * asked // (4 * done) if done else 4 * len(out)
        larger = np.empty(max(2 * len(out), likely + room), np.int64)
        larger[: cursor[1]] = out[: cursor[1]]
        out = larger


def both(a: Found, b: Found) -> Found:
    """What two probes found, of each row beside each other; no query may be in both."""
    lengths = a[1] + b[1]
    offsets = np.cumsum(lengths) - lengths
    out = np.empty(int(lengths.sum()), np.int64)
    interleave(*a, offsets, out)
    interleave(*b, offsets + a[1], out)
    return offsets, lengths, out


def _padded(columns: Floats, width: int, filler: float) -> Floats:
    if columns.shape[1] >= width:
        return columns
    return np.full((len(columns), width), filler)
