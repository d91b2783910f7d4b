"""Scattered ranges of band joins: those in no group worth an index, in blocks of like length.

Ranges are in order of length class and left end. A row asks block by block, see `kernels.band_blocks`, with the help of
a table of the rows across; or range by range (BJ-QOuter) where ranges are too few to pay for a table. `band_costs` says
which. A table is also made anew when searches that a better one would have spared have cost as much: rows have then
grown in number, drifted, or ranges have.
"""

import numpy as np

from slackwater.kernels.band_blocks import CLASS, WIDTH, probe_blocks
from slackwater.kernels.band_probes import probe_each_query
from slackwater.processing.base import Floats, Integers
from slackwater.processing.matching.band_costs import BandCosts
from slackwater.processing.matching.base import JoinSide
from slackwater.processing.matching.cell_table import CellTable, cells_for
from slackwater.processing.matching.index_base import Found, both, collect
from slackwater.processing.matching.order import PackedOrder
from slackwater.processing.matching.tables import QueryTable

ROOM = 128
"""Ranges of a block at most: few enough to have something in common, enough to be copied at once."""
TOGETHER = 8
"""Rows that go through the blocks together at most."""
MARKS = 1 << 17
"""Words of their bitmaps at most: what a cache has room for."""


class ScatteredRanges:
    """The scattered ranges among the queries of a table, and tables of the rows of both sides."""

    def __init__(self, queries: QueryTable, costs: BandCosts | None = None) -> None:
        self._queries, self._costs = queries, BandCosts() if costs is None else costs
        self._ranges = PackedOrder(WIDTH, ROOM)
        self._marks = np.zeros(0, np.uint64)
        self._tables: list[CellTable | None] = [None, None]
        self._spent = [0.0, 0.0]
        """What a new table of a side would have spared since the last one was made."""

    def __len__(self) -> int:
        return len(self._ranges)

    def slots(self) -> Integers:
        """The slots of the ranges, by length class and left end."""
        return self._ranges.entries()[2]

    def insert(self, slots: Integers) -> None:
        """Have these ranges."""
        low, high = self._queries.low[slots], self._queries.high[slots]
        self._ranges.insert(length_class(low, high), low, slots, np.stack((high, -high), axis=1))

    def delete(self, slots: Integers) -> None:
        """No longer have these ranges."""
        low, high = self._queries.low[slots], self._queries.high[slots]
        self._ranges.delete(length_class(low, high), low, slots)

    def rows_came(self, side: JoinSide, join: Floats) -> None:
        """Rows have entered the order of their side."""
        table = self._tables[side]
        if table is not None:
            table.enter(join)

    def rows_went(self, side: JoinSide, join: Floats, rows: PackedOrder) -> None:
        """Rows have left the order of their side."""
        table = self._tables[side]
        if table is not None:
            table.leave(join, rows)

    def forget_rows(self) -> None:
        """Have no rows on either side."""
        self._tables, self._spent = [None, None], [0.0, 0.0]

    def probe(self, side: JoinSide, rows: PackedOrder, join: Floats, by: Integers, others: Found | None) -> Found:
        """The ranges affected by each row of a side, and the slots of others; `rows` are those across."""
        flip, across, nothing = side is JoinSide.RIGHT, side.other, np.zeros(len(join), np.int64)
        if not len(rows):
            return nothing, nothing, nothing
        table = self._table(across, rows, len(join))
        if table is None:
            low, high, slots = self._queries.low, self._queries.high, self.slots()
            found = collect(
                len(join),
                len(by),
                lambda *out: probe_each_query(rows.packed, flip, join, by, slots, low, high, *out),
            )
            return found if others is None else both(others, found)
        if others is None:
            others = nothing, nothing, nothing
        searched, ranges, words = np.zeros(1, np.int64), self._ranges.packed, -(-self._queries.slots.ever // 64)
        together = max(min(TOGETHER, MARKS // words, len(join)), 1)
        if len(self._marks) < together * words:
            self._marks = np.zeros(together * words, np.uint64)
        marks = self._marks[: together * words]
        found = collect(
            len(join),
            len(by),
            lambda *out: probe_blocks(
                rows.packed,
                flip,
                join,
                by,
                ranges,
                table.frame,
                table.firsts,
                table.lasts,
                table.crowds,
                others,
                marks,
                words,
                len(self._queries),
                searched,
                *out,
            ),
            together * len(self._queries),
        )
        # A good table leaves a twentieth of the ranges to search.
        self._spent[across] += self._costs.one_by_one(int(searched[0]) - len(self) * len(join) // 20, len(rows))
        return found

    def _table(self, side: JoinSide, rows: PackedOrder, asked: int) -> CellTable | None:
        """The table of a side's rows, made now if that has come to pay."""
        costs, table = self._costs, self._tables[side]
        if table is None:
            blocks = int(self._ranges.packed.meta[0])
            spared = costs.one_by_one(len(self), len(rows)) - costs.by_cells(len(self), blocks)
            self._spent[side] += asked * spared
        self._spent[side] = max(self._spent[side], 0.0)
        if self._spent[side] > costs.table(len(rows), cells_for(len(rows), len(self))):
            self._spent[side] = 0.0
            self._tables[side] = CellTable(side, rows, len(self))
        return self._tables[side]

    def _check(self, rows: tuple[PackedOrder, PackedOrder]) -> None:
        self._ranges._check()
        classes, low, slots, carried = self._ranges.entries()
        high = self._queries.high[slots]
        assert np.array_equal(low, self._queries.low[slots])
        assert np.array_equal(classes, length_class(low, high))
        assert np.array_equal(carried, np.stack((high, -high), axis=1))
        for table, order in zip(self._tables, rows, strict=True):
            if table is not None:
                table._check(order)


def length_class(low: Floats, high: Floats) -> Floats:
    """Ranges of one class differ in length by less than a factor of eight.

    >>> length_class(np.zeros(4), np.array([0.0, 4.0, 31.9, np.inf])).tolist()
    [-2000.0, 1.0, 1.0, 2000.0]
    """
    with np.errstate(over="ignore"):
        length = high - low
    classes = (np.frexp(length)[1] // CLASS).astype(np.float64)
    classes[length == 0] = -2000.0
    classes[np.isinf(length)] = 2000.0
    return classes
