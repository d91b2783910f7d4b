"""Rectangle index of select-joins: sorted by (group, left end of the own range), with the range across carried along.

`slackwater.kernels.rectangle_stabbing` searches it. The summaries of many blocks are made anew when the list was
changed and is asked again: a look at every block, not at every query.
"""

import numpy as np

from slackwater.kernels.rectangle_stabbing import summarise
from slackwater.kernels.sorted_blocks import BLOCKS, Packed
from slackwater.processing.base import Floats, Integers
from slackwater.processing.matching.order import PackedOrder
from slackwater.processing.matching.tables import QueryTable

ALL = 0
"""The group of all queries where there are no groups."""


class Rectangles:
    """The queries as rows of one side see them."""

    def __init__(self, queries: QueryTable, side: int) -> None:
        self._queries, self._own, self._across = queries, side, 1 - side
        self._order = PackedOrder(width=3, room=64)
        self._summary: tuple[Packed, Floats, Floats] | None = None

    def __len__(self) -> int:
        return len(self._order)

    def insert(self, slots: Integers, groups: Integers) -> None:
        """Have these queries, each in its group."""
        queries, across = self._queries, self._across
        carried = np.stack(
            (
                queries.highs[self._own][slots, 0],
                -queries.lows[across][slots, 0],
                queries.highs[across][slots, 0],
            ),
            axis=1,
        )
        self._order.insert(groups.astype(np.float64), queries.lows[self._own][slots, 0], slots, carried)
        self._summary = None

    def delete(self, slots: Integers, groups: Integers) -> None:
        """No longer have these queries."""
        self._order.delete(groups.astype(np.float64), self._queries.lows[self._own][slots, 0], slots)
        self._summary = None

    def clear(self) -> None:
        """Have none."""
        self._order = PackedOrder(width=3, room=64)
        self._summary = None

    def searchable(self) -> tuple[Packed, Floats, Floats]:
        """The list, and its summaries of 16 and of 256 blocks."""
        if self._summary is None:
            packed = self._order.packed
            blocks = int(packed.meta[BLOCKS])
            coarse, coarser = np.empty((blocks // 16 + 1, 3)), np.empty((blocks // 256 + 1, 3))
            summarise(packed, coarse, coarser)
            self._summary = packed, coarse, coarser
        return self._summary

    def _check(self, groups: Integers) -> None:
        """`groups` has the group of each slot."""
        self._order._check()
        first, second, slots, carried = self._order.entries()
        queries = self._queries
        assert np.array_equal(np.sort(slots), queries.slots.all())
        assert np.array_equal(first, groups[slots])
        assert np.array_equal(second, queries.lows[self._own][slots, 0])
        assert np.array_equal(carried[:, 0], queries.highs[self._own][slots, 0])
        assert np.array_equal(-carried[:, 1], queries.lows[self._across][slots, 0])
        assert np.array_equal(carried[:, 2], queries.highs[self._across][slots, 0])
