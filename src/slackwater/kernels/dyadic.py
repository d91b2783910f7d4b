"""Dyadic grid: the cell of each value where cell widths are powers of two.

At level L cell k is [k·2^L, (k+1)·2^L). Going up a level halves k, rounding down; because scaling by a power of two
is exact, the cell found at a level is the same whether it is found there or reached from below.

`find_cells` is compiled, `cell_plainly` is its twin over Python values.
"""

import math
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from slackwater.kernels.jit import compiled

Integers = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


@compiled
def largest_size(places: Integers, values: Floats, largest: Floats) -> None:
    """Raise `largest[s]` to the largest |value| of slot s; row i belongs to slot `places[i]`."""
    for i in range(len(values)):
        largest[places[i]] = max(largest[places[i]], abs(values[i]))


@compiled
def find_cells(places: Integers, values: Floats, levels: Integers, offset: int, cells: Integers) -> None:
    """Write the cell of each value at its slot's level, plus `offset`, to `cells`."""
    first, second = np.empty(len(levels)), np.empty(len(levels))
    for slot in range(len(levels)):
        # In two factors, because 2^−L alone may be too large for a double.
        half = levels[slot] // 2
        first[slot] = 2.0**-half
        second[slot] = 2.0 ** (half - levels[slot])
    for i in range(len(values)):
        cell = math.floor(values[i] * first[places[i]] * second[places[i]])
        # A negative value that is nothing at this scale is still below zero.
        if values[i] < 0.0 and cell > -1:
            cell = -1
        cells[i] = cell + offset


def cell_plainly(value: float, level: int) -> int:
    """The cell of a value, in fractions.

    >>> cell_plainly(5.0, 1), cell_plainly(-0.25, 0)
    (2, -1)
    """
    return math.floor(Fraction(value) / Fraction(2) ** level)
