"""Join-partner scan: the rows across a join that lie in a range or nearest a point, and their enumeration.

Rows stand in a `Packed` list by (join value, first attribute, slot); for band joins the first attribute is left out,
and `flip` is true where the difference falls along the list, as in `band_search`.
"""

import numpy as np
import numpy.typing as npt

from slackwater.kernels.band_search import seek
from slackwater.kernels.jit import compiled, inlined
from slackwater.kernels.sorted_blocks import Packed, locate

Integers = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


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
def count_joining(packed: Packed, join: Floats, out: Integers) -> None:
    """Count the rows equal to each of these join values."""
    for k in range(len(join)):
        place, offset = locate(packed, join[k], -np.inf, -1)
        end, last = locate(packed, join[k], np.inf, 9223372036854775807)
        count = last - offset
        for at in range(place, end):
            count += packed.sizes[packed.order[at]]
        out[k] = count


@inlined
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
    most_steps: int,
    steps: Integers,
    out_pairs: Integers,
    out_partners: Integers,
) -> tuple[int, int, bool]:
    """The partners of pairs of row and query: all, or with `every` false the first of each.

    A pair is a step, and so is every row across that is looked at. Writes the pair and the slot of the partner, and how
    many steps each pair took; returns the pair at which the room or the steps ended (or all ended), how much was
    written before it, and whether it was the steps.
    """
    used, left = 0, most_steps
    for k in range(len(pair_rows)):
        row, query, begin, first = pair_rows[k], pair_queries[k], used, left
        left -= 1
        steps[k] = 1
        if left < 0:
            return k, begin, True
        if not inside(own, row, own_lows, own_highs, query, 0):
            continue
        join = own_join[row]
        if band:
            place, offset = seek(packed, join, high[query] if flip else low[query], 2 if flip else 1, -1)
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
            left -= 1
            if left < 0:
                steps[k] = first + 1
                return k, begin, True
            slot = packed.slots[block, offset]
            if inside(other, slot, other_lows, other_highs, query, 0):
                if used == len(out_pairs):
                    return k, begin, False
                out_pairs[used] = k
                out_partners[used] = slot
                used += 1
                if not every:
                    break
            offset += 1
        steps[k] = first - left
    return len(pair_rows), used, False
