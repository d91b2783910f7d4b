"""Group probe of select-joins (SJ-SSI): the queries affected by an arriving row, by stabbing groups.

A group's queries stand in three lists: by left and by right end across, as in a band join, and as the rectangles of
`rectangle_stabbing`.

Kernels take rows in the order `by`, go on where the cursor stands and stop before a row for which there is no room; see
`processing.matching.index_base.collect`.
"""

import numpy as np
import numpy.typing as npt

from slackwater.kernels.jit import compiled
from slackwater.kernels.partners import nearest_joining
from slackwater.kernels.rectangle_stabbing import stab
from slackwater.kernels.sorted_blocks import Packed, locate

Integers = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

Starts = tuple[Integers, Integers]
"""Where the entries of each group begin: places and offsets."""


@compiled
def scan(
    ends: Packed,
    place: int,
    offset: int,
    group: float,
    bound: float,
    own: float,
    budget: int,
    out: Integers,
    used: int,
) -> int:
    """Write the queries of a group whose end across is at most `bound` and whose own range holds the row.

    `ends` has (group, end) and carries (−left end, right end) of the own range. Returns how much is written then, −1
    where the room ended, −2 where more than `budget` queries had to be looked at.
    """
    while place < ends.meta[0]:
        block = ends.order[place]
        size = ends.sizes[block]
        while offset < size and ends.first[block, offset] == group and ends.second[block, offset] <= bound:
            if ends.carried[block, 0, offset] >= -own and ends.carried[block, 1, offset] >= own:
                if used == len(out):
                    return -1
                out[used] = ends.slots[block, offset]
                used += 1
            offset += 1
            budget -= 1
            if budget < 0:
                return -2
        if offset < size:
            break
        place, offset = place + 1, 0
    return used


@compiled
def probe_groups(
    partners: Packed,
    join: Floats,
    own: Floats,
    by: Integers,
    points: Floats,
    groups: Integers,
    least: Floats,
    most: Floats,
    lefts: Packed,
    left_starts: Starts,
    rights: Packed,
    right_starts: Starts,
    index: Packed,
    coarse: Floats,
    coarser: Floats,
    lows: Floats,
    budget: int,
    cursor: Integers,
    offsets: Integers,
    lengths: Integers,
    out: Integers,
) -> None:
    """SJ-SSI: of a group's ranges across, all of which hold its point, those that hold any joining row hold the nearest
    one on one side of it.

    Those that do are beginnings of the group's lists by left and by right end across, as of a band join. Where these
    are short the own range of each is looked at; otherwise the rectangles of the group are asked.
    """
    used = cursor[1]
    for k in range(cursor[0], len(by)):
        row, begin = by[k], used
        place, offset = locate(partners, join[row], -np.inf, -1)
        joins = place < partners.meta[0] and partners.first[partners.order[place], offset] == join[row]
        value = own[row, 0]
        for g in range(len(points) if joins else 0):
            below, nearest_below, above, nearest_above = nearest_joining(partners, join[row], points[g])
            left = below and least[g] <= nearest_below
            right = above and most[g] >= nearest_above
            if not (left or right):
                continue
            start = used
            if left:
                used = scan(
                    lefts, left_starts[0][g], left_starts[1][g], groups[g], nearest_below, value, budget, out, used
                )
            if right and used >= 0:
                middle = used
                used = scan(
                    rights, right_starts[0][g], right_starts[1][g], groups[g], -nearest_above, value, budget, out, used
                )
                if used >= 0 and below:
                    # What was found from the left is not found again.
                    end, used = used, middle
                    for j in range(middle, end):
                        if lows[out[j], 0] > nearest_below:
                            out[used] = out[j]
                            used += 1
            if used == -2:
                used = stab(
                    index,
                    coarse,
                    coarser,
                    groups[g],
                    value,
                    left,
                    nearest_below,
                    right,
                    nearest_above,
                    False,
                    out,
                    start,
                )
            if used < 0:
                cursor[0], cursor[1] = k, begin
                return
        offsets[row], lengths[row] = begin, used - begin
    cursor[0], cursor[1] = len(by), used
