"""Cell table of one side's rows: a grid that says in one look which join value comes first from a place on.

The grid lies between the first and last thousandth of the values, with a few cells for each. It is kept up to date
value by value (`kernels.band_cells`); drifted or grown rows make it coarse, never wrong, and it is then made anew.
"""

import numpy as np

from slackwater.kernels.band_cells import MANY, build_cells, enter_cells, leave_cells
from slackwater.processing.base import Floats
from slackwater.processing.matching.base import JoinSide
from slackwater.processing.matching.order import PackedOrder

CELLS_A_ROW = 4
FINER, CACHED = 4, 1 << 16
"""A table of few rows is finer, by this factor at most, up to what a cache has room for."""
CELLS_A_RANGE, MODEST = 16, 1 << 20
"""A table for few ranges is coarser than that, from so many cells on."""


class CellTable:
    """See the module; `side` is that of its rows.

    >>> order = PackedOrder()
    >>> order.insert(np.array([5.0, 7.0, 30.0]), np.zeros(3), np.arange(3))
    >>> table = CellTable(JoinSide.RIGHT, order, ranges=100)
    >>> table.enter(np.array([6.0]))
    >>> table.rows_when_made, len(table.firsts)
    (3, 49)
    """

    def __init__(self, side: JoinSide, rows: PackedOrder, ranges: int) -> None:
        values = rows.entries()[0]
        self._negated = side is JoinSide.LEFT
        if self._negated:
            values = -values[::-1]
        self.rows_when_made = len(values)
        count = cells_for(len(values), ranges)
        self.frame = _frame(values, count)
        self.firsts, self.lasts, self.crowds = np.empty(count + 1), np.empty(count + 1), np.empty(count + 1, np.uint8)
        build_cells(values, self.frame, self.firsts, self.lasts, self.crowds)

    def enter(self, join: Floats) -> None:
        """Rows come."""
        enter_cells(-join if self._negated else join, self.frame, self.firsts, self.lasts, self.crowds)

    def leave(self, join: Floats, rows: PackedOrder) -> None:
        """Rows have gone; `rows` are those that are left."""
        leave_cells(
            -join if self._negated else join,
            self._negated,
            rows.packed,
            self.frame,
            self.firsts,
            self.lasts,
            self.crowds,
        )

    def _check(self, rows: PackedOrder) -> None:
        values = rows.entries()[0]
        firsts, lasts, crowds = np.empty_like(self.firsts), np.empty_like(self.lasts), np.empty_like(self.crowds)
        build_cells(-values if self._negated else values, self.frame, firsts, lasts, crowds)
        assert np.array_equal(firsts, self.firsts, equal_nan=True)
        assert np.array_equal(lasts, self.lasts, equal_nan=True)
        assert np.array_equal(crowds[self.crowds < MANY], self.crowds[self.crowds < MANY])


def cells_for(rows: int, ranges: int) -> int:
    """How many cells a table has: more would be memory without use."""
    most = CELLS_A_ROW * rows
    return max(min(max(most, min(FINER * most, CACHED)), max(CELLS_A_RANGE * ranges, MODEST)), 1)


def _frame(values: Floats, count: int) -> Floats:
    """Origin, cells per unit and last cell, for values in order."""
    if not len(values):
        return np.array([0.0, 1.0, count - 1.0])
    apart = len(values) // 1000
    least, most = float(values[apart]), float(values[-1 - apart])
    with np.errstate(all="ignore"):
        scale = count / (np.float64(most) - np.float64(least))
    return np.array([least, scale if 0 < scale < np.inf else 1.0, count - 1.0])
