"""Cost model of scattered band joins: one search a range, or blocks over a cell table, with fitted constants.

With n scattered ranges in b blocks and m rows across, in seconds for one row:

    one by one   a n log m
    cells        b·c + n d + e s log m         (s ranges that their cell cannot tell about)

and once for a table f m + g cells. A table is made when asking one by one has cost as much more as making it would:
never more than twice what foresight would have spent.

Constants are rounded from measured times; choices follow from counts alone and are the same on every machine.
"""

import math
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class BandCosts:
    """The constants, in nanoseconds."""

    search: float = 6.5
    """Of a search, for each halving."""
    block: float = 25.0
    look: float = 4.0
    enter: float = 8.0
    """Of a row that enters a new table."""
    cell: float = 4.0
    """Of a cell of a new table."""

    def one_by_one(self, ranges: int, across: int) -> float:
        """Of one row."""
        return self.search * ranges * math.log2(across + 2)

    def by_cells(self, ranges: int, blocks: int) -> float:
        """Of one row, where cells tell."""
        return self.block * blocks + self.look * ranges

    def table(self, across: int, cells: int) -> float:
        """Of making a table."""
        return self.enter * across + self.cell * cells
