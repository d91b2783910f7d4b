"""Join-partner scan: the rows across a join that lie in a range or nearest a point, and their enumeration.

Rows stand in a `Packed` list by (join value, first attribute, slot); for band joins the first attribute is left out.
The difference of a band is right − left; seen from a right row it *falls* along the list, which `flip` marks.
Differences are computed as they are defined, x − y in doubles, and searched for by that: rounding is monotone, so
the search is exact where x + bound would not be.
"""

import numpy as np
import numpy.typing as npt

from slackwater.kernels.jit import compiled, inlined
from slackwater.kernels.sorted_blocks import Packed, locate

Integers = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]

ABOVE, AT_LEAST, FLIPPED_AT_MOST = range(3)


@inlined
def reached(value: float, own: float, bound: float, how: int) -> bool:
    """Whether a row is at or beyond the place looked for; along the list it turns true once."""
    if how == 0:
        return value - own > bound
    if how == 1:
        return value - own >= bound
    return own - value <= bound


@inlined
def seek(packed: Packed, own: float, bound: float, how: int, near: int) -> tuple[int, int]:
    """Find the first row that is `reached`; place = blocks where none is.

    `near` is a place of the directory to begin at, in steps that double, or −1 to halve all of it.
    """
    low, high = 0, packed.meta[0]
    if 0 <= near < high:
        step = 1
        if reached(packed.keys_first[near], own, bound, how):
            high = near
            while high - step >= 0 and reached(packed.keys_first[high - step], own, bound, how):
                high -= step
                step *= 2
            low = max(high - step, 0)
        else:
            low = near + 1
            while low + step - 1 < high and not reached(packed.keys_first[low + step - 1], own, bound, how):
                low += step
                step *= 2
            high = min(low + step, high)
    while low < high:
        middle = (low + high) >> 1
        if reached(packed.keys_first[middle], own, bound, how):
            high = middle
        else:
            low = middle + 1
    if low == 0:
        return 0, 0
    block = packed.order[low - 1]
    size = packed.sizes[block]
    # Guess where it stands between the first entries of two blocks, and step from there: a miss of the cache or two
    # where halving a block would cost five.
    guess = size >> 1
    if low < packed.meta[0]:
        least, most = packed.keys_first[low - 1], packed.keys_first[low]
        share = ((own - bound if how == 2 else own + bound) - least) / max(most - least, 1e-300)
        if 0.0 <= share < 1.0:
            guess = int(share * size)
    step = 1
    if reached(packed.first[block, guess], own, bound, how):
        end = guess
        while end - step >= 0 and reached(packed.first[block, end - step], own, bound, how):
            end -= step
            step *= 2
        start = max(end - step, 0)
    else:
        start = guess + 1
        while start + step - 1 < size and not reached(packed.first[block, start + step - 1], own, bound, how):
            start += step
            step *= 2
        end = min(start + step, size)
    while start < end:
        middle = (start + end) >> 1
        if reached(packed.first[block, middle], own, bound, how):
            end = middle
        else:
            start = middle + 1
    if start == size:
        return low, 0
    return low - 1, start


@inlined
def neighbours(packed: Packed, own: float, point: float, flip: bool, near: int) -> tuple[bool, float, bool, float, int]:
    """The greatest difference at most `point` and the least one above it, each with whether there is one.

    And the place at which to begin the next time, for a point nearby.
    """
    place, offset = seek(packed, own, point, 2 if flip else 0, near)
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
        return after, own - following, before, own - preceding, place
    return before, preceding - own, after, following - own, place


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
