"""Band search: the first row across whose difference to a row reaches a bound, and the two differences around a point.

Rows stand in a `Packed` list by (join value, slot). The difference of a band is right − left; seen from a right row it
*falls* along the list, which `flip` marks. Differences are computed as they are defined, x − y in doubles, and searched
for by that: rounding is monotone, so the search is exact where x + bound would not be.
"""

from slackwater.kernels.jit import inlined
from slackwater.kernels.sorted_blocks import Packed

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
