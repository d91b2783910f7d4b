"""Sorted search with a table of contents: `searchsorted` for numbers in no order.

Design
    The span of the sorted values is cut into equal cells, one for every eight values, which share a line of memory
    when they are spread evenly; the table says where each cell begins among them, and is small enough to stay near. A
    number is looked up in its cell by halving: three steps where values are spread evenly, never more than a search
    over all of them, and few places of memory instead of twenty where the arrays are large.

`np.searchsorted` is the twin: the same arguments give the same answer.
"""

import math

import numpy as np
import numpy.typing as npt

from slackwater.kernels.jit import compiled

Integers = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]
Contents = npt.NDArray[np.int32]

BINS = 1024


@compiled
def _cell(value: float, low: float, scale: float, cells: int) -> int:
    """The cell of a value; the same rounding for all, so that cells keep the order of values."""
    if value <= low:
        return 0
    at = (value - low) * scale
    return int(at) if at < cells - 1 else cells - 1


@compiled
def _contents(ordered: Floats) -> tuple[Contents, float, float]:
    """Where each cell begins among the ordered values, and how to find a cell: low end and cells for each unit."""
    count = len(ordered)
    low, span = ordered[0], ordered[-1] - ordered[0]
    cells = count // 8 + 1
    scale = cells / span if span > 0 else 0.0
    if not math.isfinite(span) or not math.isfinite(scale):
        cells, low, scale = 1, 0.0, 0.0  # one cell holds everything: a plain search
    begins = np.zeros(cells + 1, np.int32)
    for k in range(count):
        begins[_cell(ordered[k], low, scale, cells) + 1] += 1
    for cell in range(cells):
        begins[cell + 1] += begins[cell]
    return begins, low, scale


@compiled
def _place(ordered: Floats, begins: Contents, low: float, scale: float, value: float, right: bool) -> int:
    cell = _cell(value, low, scale, len(begins) - 1)
    first, last = np.int64(begins[cell]), np.int64(begins[cell + 1])
    while first < last:
        middle = (first + last) // 2
        if ordered[middle] < value or (right and ordered[middle] == value):
            first = middle + 1
        else:
            last = middle
    return int(first)


@compiled
def placed(ordered: Floats, values: Floats, right: bool) -> Integers:
    """How many of the ordered values lie before each value; with `right` those that are equal count too."""
    answer = np.zeros(len(values), np.int64)
    if len(ordered):
        begins, low, scale = _contents(ordered)
        for k in range(len(values)):
            answer[k] = _place(ordered, begins, low, scale, values[k], right)
    return answer


@compiled
def placed_ranges(
    ordered: Floats, lows: Floats, highs: Floats, low_open: Flags, high_open: Flags
) -> tuple[Integers, Integers, Integers]:
    """The ranges that hold any of the ordered values: which, the first value in each and the last.

    They come roughly from left to right: ranges are dealt into a thousand bins by their low ends first, and a
    later pass over them finds neighbours near in memory.
    """
    count = len(lows)
    who, first, last = np.empty(count, np.int64), np.empty(count, np.int64), np.empty(count, np.int64)
    if len(ordered) == 0:
        return who[:0], first[:0], last[:0]
    begins, low, scale = _contents(ordered)
    cells = len(begins) - 1
    bins = np.zeros(BINS + 1, np.int64)
    for k in range(count):
        bins[_cell(lows[k], low, scale, cells) * BINS // cells + 1] += 1
    for one in range(BINS):
        bins[one + 1] += bins[one]
    dealt, dealt_low, dealt_high = np.empty(count, np.int64), np.empty(count), np.empty(count)
    for k in range(count):
        one = _cell(lows[k], low, scale, cells) * BINS // cells
        at = bins[one]
        bins[one] += 1
        dealt[at], dealt_low[at], dealt_high[at] = k, lows[k], highs[k]
    used = 0
    for at in range(count):
        k = dealt[at]
        start = _place(ordered, begins, low, scale, dealt_low[at], low_open[k])
        end = _place(ordered, begins, low, scale, dealt_high[at], not high_open[k]) - 1
        if start <= end:
            who[used], first[used], last[used] = k, start, end
            used += 1
    return who[:used], first[:used], last[:used]
