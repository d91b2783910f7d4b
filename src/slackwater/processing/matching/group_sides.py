"""Group indexes of select-joins for one side's rows: by left end across, by right end across, and as rectangles.

A group's queries are in three lists, so that a row that many ranges across could satisfy is asked by its own range, and
one that few could by theirs. Scattered queries are rectangles only.
"""

import numpy as np

from slackwater.kernels.select_probes import probe_groups
from slackwater.processing.base import Floats, Integers
from slackwater.processing.matching.groups import GroupTable
from slackwater.processing.matching.hotspots import SCATTERED
from slackwater.processing.matching.index_base import Found, collect
from slackwater.processing.matching.order import PackedOrder
from slackwater.processing.matching.rectangles import Rectangles
from slackwater.processing.matching.tables import QueryTable

BUDGET = 256
"""How many queries of a group are looked at one by one before its rectangles are asked: about what that costs."""


class StabbedRectangles:
    """The queries as rows of one side see them, in groups."""

    def __init__(self, queries: QueryTable, side: int) -> None:
        self.rectangles = Rectangles(queries, side)
        self._queries, self._own, self._across = queries, side, 1 - side
        self._lefts, self._rights = PackedOrder(width=2), PackedOrder(width=2)

    def insert(self, slots: Integers, groups: Integers) -> None:
        """Have these queries, each in its group."""
        self.rectangles.insert(slots, groups)
        hot = groups != SCATTERED
        slots, numbers = slots[hot], groups[hot].astype(np.float64)
        left, right, carried = self._columns(slots)
        self._lefts.insert(numbers, left, slots, carried)
        self._rights.insert(numbers, right, slots, carried)

    def delete(self, slots: Integers, groups: Integers) -> None:
        """No longer have these queries."""
        self.rectangles.delete(slots, groups)
        hot = groups != SCATTERED
        slots, numbers = slots[hot], groups[hot].astype(np.float64)
        left, right, _ = self._columns(slots)
        self._lefts.delete(numbers, left, slots)
        self._rights.delete(numbers, right, slots)

    def clear(self) -> None:
        """Have none."""
        self.rectangles.clear()
        self._lefts, self._rights = PackedOrder(width=2), PackedOrder(width=2)

    def probe(self, partners: PackedOrder, join: Floats, attributes: Floats, by: Integers, table: GroupTable) -> Found:
        """The queries of these groups that are affected by the rows in `by`."""
        (index, coarse, coarser), lows = self.rectangles.searchable(), self._queries.lows[self._across]
        lefts = self._lefts.packed, self._lefts.starts(table.groups)
        rights = self._rights.packed, self._rights.starts(table.groups)
        return collect(
            len(join),
            len(by),
            lambda *out: probe_groups(
                partners.packed,
                join,
                attributes,
                by,
                table.points,
                table.groups,
                table.least,
                table.most,
                *lefts,
                *rights,
                index,
                coarse,
                coarser,
                lows,
                BUDGET,
                *out,
            ),
        )

    def _columns(self, slots: Integers) -> tuple[Floats, Floats, Floats]:
        queries, own, across = self._queries, self._own, self._across
        carried = np.stack((-queries.lows[own][slots, 0], queries.highs[own][slots, 0]), axis=1)
        return queries.lows[across][slots, 0], -queries.highs[across][slots, 0], carried

    def _check(self, groups: Integers) -> None:
        """`groups` has the group of each slot."""
        self.rectangles._check(groups)
        there = self._queries.slots.all()
        for order, k in ((self._lefts, 0), (self._rights, 1)):
            order._check()
            first, second, slots, carried = order.entries()
            assert np.array_equal(np.sort(slots), there[groups[there] != SCATTERED])
            assert np.array_equal(first, groups[slots])
            columns = self._columns(slots)
            assert np.array_equal(second, columns[k])
            assert np.array_equal(carried, columns[2])
