"""The rows across a join: where those within a range begin, which are nearest a point, and all of them one by one.

Rows stand in a `Packed` list by (join value, first attribute, slot); for band joins the first attribute is left out.
The difference of a band is right − left; seen from a right row it *falls* along the list, which is what `flip` says.
Differences are computed as they are defined, x − y in doubles, and searched for by that: rounding is monotone, so
the search is exact where x + bound would not be.
"""

import numpy as np
import numpy.typing as npt

from slackwater.kernels.compiled import compiled
from slackwater.kernels.packed import Packed, locate

Integers = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]

ABOVE, AT_LEAST, FLIPPED_AT_MOST = range(3)


@compiled
def reached(value: float, own: float, bound: float, how: int) -> bool:
    """Whether a row is at or beyond the place looked for; along the list it turns true once."""
    if how == 0:
        return value - own > bound
    if how == 1:
        return value - own >= bound
    return own - value <= bound


@compiled
def seek(packed: Packed, own: float, bound: float, how: int) -> tuple[int, int]:
    """Where the first row stands that is `reached`; place = blocks where none is."""
    low, high = 0, packed.meta[0]
    while low < high:
        middle = (low + high) >> 1
        if reached(packed.keys_first[middle], own, bound, how):
            high = middle
        else:
            low = middle + 1
    if low == 0:
        return 0, 0
    block = packed.order[low - 1]
    start, end = 0, packed.sizes[block]
    while start < end:
        middle = (start + end) >> 1
        if reached(packed.first[block, middle], own, bound, how):
            end = middle
        else:
            start = middle + 1
    if start == packed.sizes[block]:
        return low, 0
    return low - 1, start


@compiled
def neighbours(packed: Packed, own: float, point: float, flip: bool) -> tuple[bool, float, bool, float]:
    """The greatest difference at most `point` and the least one above it, each with whether there is one."""
    place, offset = seek(packed, own, point, 2 if flip else 0)
    after, following = False, 0.0
    if place < packed.meta[0]:
        after, following = True, packed.first[packed.order[place], offset]
    before, preceding = True, 0.0
    if offset > 0:
        preceding = packed.first[packed.order[place], offset - 1]
    elif place > 0:
        block = packed.order[place - 1]
        preceding = packed.first[block, packed.sizes[block] - 1]
    else:
        before = False
    if flip:
        return after, own - following, before, own - preceding
    return before, preceding - own, after, following - own


@compiled
def nearest_joining(packed: Packed, join: float, point: float) -> tuple[bool, float, bool, float]:
    """Among the rows equal to `join`: the greatest first attribute at most `point`, and the least one above it."""
    place, offset = locate(packed, join, point, 9223372036854775807)
    above, following = False, 0.0
    if place < packed.meta[0]:
        block = packed.order[place]
        if packed.first[block, offset] == join:
            above, following = True, packed.second[block, offset]
    if offset > 0:
        block, at = packed.order[place], offset - 1
    elif place > 0:
        block = packed.order[place - 1]
        at = packed.sizes[block] - 1
    else:
        return False, 0.0, above, following
    if packed.first[block, at] != join:
        return False, 0.0, above, following
    return True, packed.second[block, at], above, following


@compiled
def joins_within(packed: Packed, join: float, low: float, high: float) -> bool:
    """Whether a row equal to `join` has its first attribute in the range."""
    place, offset = locate(packed, join, low, -1)
    if place == packed.meta[0]:
        return False
    block = packed.order[place]
    return bool(packed.first[block, offset] == join and packed.second[block, offset] <= high)


@compiled
def inside(values: Floats, row: int, lows: Floats, highs: Floats, query: int, begin: int) -> bool:
    """Whether a row's attributes, from `begin` on, lie in a query's ranges."""
    for k in range(begin, values.shape[1]):
        if values[row, k] < lows[query, k] or values[row, k] > highs[query, k]:
            return False
    return True


@compiled
def walk(
    packed: Packed,
    band: bool,
    flip: bool,
    own_join: Floats,
    own: Floats,
    pair_rows: Integers,
    pair_queries: Integers,
    low: Floats,
    high: Floats,
    own_lows: Floats,
    own_highs: Floats,
    other_lows: Floats,
    other_highs: Floats,
    other: Floats,
    every: bool,
    pair: int,
    out_pairs: Integers,
    out_partners: Integers,
) -> tuple[int, int]:
    """The partners of pairs of row and query, from pair number `pair` on: all, or with `every` false the first of each.

    Writes the pair and the slot of the partner; returns the pair at which the room ended (or all ended) and how much
    was written before it.
    """
    used = 0
    for k in range(pair, len(pair_rows)):
        row, query, begin = pair_rows[k], pair_queries[k], used
        if not inside(own, row, own_lows, own_highs, query, 0):
            continue
        join = own_join[row]
        if band:
            place, offset = seek(packed, join, high[query] if flip else low[query], 2 if flip else 1)
        else:
            place, offset = locate(packed, join, other_lows[query, 0], -1)
        while place < packed.meta[0]:
            block = packed.order[place]
            if offset == packed.sizes[block]:
                place, offset = place + 1, 0
                continue
            value = packed.first[block, offset]
            if band:
                if (join - value < low[query]) if flip else (value - join > high[query]):
                    break
            elif value != join or packed.second[block, offset] > other_highs[query, 0]:
                break
            slot = packed.slots[block, offset]
            if inside(other, slot, other_lows, other_highs, query, 0):
                if used == len(out_pairs):
                    return k, begin
                out_pairs[used] = k
                out_partners[used] = slot
                used += 1
                if not every:
                    break
            offset += 1
    return len(pair_rows), used


@compiled
def arrange(
    offsets: Integers, lengths: Integers, found: Integers, numbers: Integers, starts: Integers, out: Integers
) -> None:
    """Bring what was found, row by row somewhere, into the order of rows, as numbers in rising order."""
    at = 0
    for row in range(len(lengths)):
        starts[row] = at
        for k in range(lengths[row]):
            number = numbers[found[offsets[row] + k]]
            # A few at a time: put each where it belongs. Many: sort once.
            if lengths[row] <= 24:
                j = at + k
                while j > at and out[j - 1] > number:
                    out[j] = out[j - 1]
                    j -= 1
                out[j] = number
            else:
                out[at + k] = number
        if lengths[row] > 24:
            out[at : at + lengths[row]].sort()
        at += lengths[row]
    starts[len(lengths)] = at


@compiled
def interleave(offsets: Integers, lengths: Integers, found: Integers, places: Integers, out: Integers) -> None:
    """Copy what was found for each row to its place."""
    for row in range(len(lengths)):
        for k in range(lengths[row]):
            out[places[row] + k] = found[offsets[row] + k]
