"""Cell table of join values: for every cell of a grid the first value at or after it, and the last one in it.

Design
    Values are differences in the making: of right rows the join value, of left rows its negative. So for either side
    `value − own` is the difference of a band, rising along the table (`own` is negated like the values).
    `firsts` has for each of `count` cells, and one more at the end, the least value in this cell or a later one;
    `lasts` has the greatest value in the cell. NaN stands for "none" and fails every comparison. `crowds` says how many
    values are in the cell, small enough to stay in the cache; a cell that ever had MANY is said to have them for good.
    `frame` is the origin of the grid, cells per unit, and count − 1. Values beyond the grid are in its outer cells.

Mathematics
    `cell_of` is monotone in floating point. Let x = low + own − (|low| + |own|) · 2⁻⁵⁰. A value whose rounded
    difference to own is `low` or more is x or more, so its cell is that of x or a later one, and it is not less than
    firsts[cell_of(x)]: a lower bound, found with one look.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from slackwater.kernels.band_search import seek
from slackwater.kernels.jit import compiled, inlined
from slackwater.kernels.sorted_blocks import Packed

Integers = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

Crowds = npt.NDArray[np.uint8]

SLACK = 2.0**-50
MANY = 255


@inlined
def cell_of(value: float, frame: Floats) -> int:
    """The cell of a value; what is no number is in the first."""
    # Not min and max: what is no number becomes 0.
    place = (value - frame[0]) * frame[1]
    place = place if place > 0.0 else 0.0  # noqa: FURB136
    place = place if place < frame[2] else frame[2]  # noqa: FURB136
    return int(place)


@compiled
def build_cells(values: Floats, frame: Floats, firsts: Floats, lasts: Floats, crowds: Crowds) -> None:
    """Fill the table from values in any order."""
    firsts[:] = np.nan
    lasts[:] = np.nan
    crowds[:] = 0
    for k in range(len(values)):
        cell = cell_of(values[k], frame)
        crowds[cell] = min(crowds[cell] + 1, MANY)
        if not firsts[cell] <= values[k]:
            firsts[cell] = values[k]
        if not lasts[cell] >= values[k]:
            lasts[cell] = values[k]
    for cell in range(len(firsts) - 2, -1, -1):
        if np.isnan(lasts[cell]):
            firsts[cell] = firsts[cell + 1]


@inlined
def fill_back(firsts: Floats, lasts: Floats, cell: int, value: float) -> None:
    """The empty cells before one have its first value."""
    cell -= 1
    while cell >= 0 and np.isnan(lasts[cell]):
        firsts[cell] = value
        cell -= 1


@compiled
def enter_cells(values: Floats, frame: Floats, firsts: Floats, lasts: Floats, crowds: Crowds) -> None:
    """Values come."""
    for k in range(len(values)):
        value = values[k]
        cell = cell_of(value, frame)
        crowds[cell] = min(crowds[cell] + 1, MANY)
        empty = np.isnan(lasts[cell])
        if empty or value > lasts[cell]:
            lasts[cell] = value
        if empty or value < firsts[cell]:
            firsts[cell] = value
            fill_back(firsts, lasts, cell, value)


@compiled
def leave_cells(
    values: Floats, negated: bool, rows: Packed, frame: Floats, firsts: Floats, lasts: Floats, crowds: Crowds
) -> None:
    """Values have gone from `rows`, which has the join values that are left; `negated` if the table has negatives."""
    for k in range(len(values)):
        value = values[k]
        cell = cell_of(value, frame)
        if crowds[cell] < MANY:
            crowds[cell] -= 1
        if firsts[cell] != value and lasts[cell] != value:
            continue
        # The first join value from this one on, and the last one before it.
        place, offset = seek(rows, 0.0, -value if negated else value, 1, -1)
        after, before = np.nan, np.nan
        if place < rows.meta[0]:
            after = rows.first[rows.order[place], offset]
        if offset > 0:
            before = rows.first[rows.order[place], offset - 1]
        elif place > 0:
            block = rows.order[place - 1]
            before = rows.first[block, rows.sizes[block] - 1]
        if after == (-value if negated else value):
            continue
        if negated:
            after, before = -before, -after
        if lasts[cell] == value:
            stays = not np.isnan(before) and cell_of(before, frame) == cell
            lasts[cell] = before if stays else np.nan
        if firsts[cell] == value:
            firsts[cell] = after
            fill_back(firsts, lasts, cell, after)


def cells_plainly(values: Sequence[float], origin: float, scale: float, count: int) -> list[tuple[float, float, int]]:
    """The table by its definition.

    >>> cells_plainly([2.5, 2.0, 7.0], 0.0, 0.5, 3)
    [(2.0, nan, 0), (2.0, 2.5, 2), (7.0, 7.0, 1), (nan, nan, 0)]
    """
    table = []
    for cell in range(count + 1):
        places = [(min(max(int((value - origin) * scale), 0), count - 1), value) for value in values]
        later = [value for at, value in places if at >= cell]
        own = [value for at, value in places if at == cell]
        table.append((min(later, default=float("nan")), max(own, default=float("nan")), len(own)))
    return table
