"""Select-join probes: the queries affected by an arriving row, by stabbing groups (SJ-SSI) and older methods.

A query is a rectangle: its range on the row's own side, times its range across. `Packed` lists have rectangles by
(group, left end of the own range) and carry (right end of the own range, −left end across, right end across), so that
the maxima of a block show whether it can hold anything of use; `coarse` and `coarser` have those maxima for 16 and for
256 blocks of the directory together.

Kernels take rows in the order `by`, go on where the cursor stands and stop before a row for which there is no room; see
`processing.matching.index_base.collect`.
"""

import numpy as np
import numpy.typing as npt

from slackwater.kernels.jit import compiled
from slackwater.kernels.partners import joins_within, nearest_joining
from slackwater.kernels.sorted_blocks import Packed, find_block, locate

Integers = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

Starts = tuple[Integers, Integers]
"""Where the entries of each group begin: places and offsets."""


@compiled
def summarise(packed: Packed, coarse: Floats, coarser: Floats) -> None:
    """The greatest of what 16, and 256, blocks of the directory carry."""
    coarse[:] = -np.inf
    coarser[:] = -np.inf
    for place in range(packed.meta[0]):
        block = packed.order[place]
        for column in range(packed.tops.shape[1]):
            top = packed.tops[block, column]
            coarse[place >> 4, column] = max(coarse[place >> 4, column], top)
            coarser[place >> 8, column] = max(coarser[place >> 8, column], top)


@compiled
def holds(
    own_high: float,
    other_low: float,
    other_high: float,
    own: float,
    below: bool,
    nearest_below: float,
    above: bool,
    nearest_above: float,
    point: bool,
) -> bool:
    """Whether a rectangle (or a bound of many) that begins left of `own` is one of those looked for.

    With `point`, both sides across must hold; otherwise one is enough. `other_low` is negated, as it is carried.
    """
    if own_high < own:
        return False
    left = below and other_low >= -nearest_below
    right = above and other_high >= nearest_above
    return (left and right) if point else (left or right)


@compiled
def stab(
    index: Packed,
    coarse: Floats,
    coarser: Floats,
    group: float,
    own: float,
    below: bool,
    nearest_below: float,
    above: bool,
    nearest_above: float,
    point: bool,
    out: Integers,
    used: int,
) -> int:
    """Write the rectangles of a group that `holds`; returns how much is written then, −1 where the room ended."""
    blocks = index.meta[0]
    if blocks == 0:
        return used
    place = find_block(index, group, -np.inf, -1)
    while place < blocks:
        key = index.keys_first[place]
        if key > group or (key == group and index.keys_second[place] > own):
            break
        if place & 255 == 0:
            top = coarser[place >> 8]
            if not holds(top[0], top[1], top[2], own, below, nearest_below, above, nearest_above, point):
                place += 256
                continue
        if place & 15 == 0:
            top = coarse[place >> 4]
            if not holds(top[0], top[1], top[2], own, below, nearest_below, above, nearest_above, point):
                place += 16
                continue
        block = index.order[place]
        top = index.tops[block]
        place += 1
        if not holds(top[0], top[1], top[2], own, below, nearest_below, above, nearest_above, point):
            continue
        carried = index.carried[block]
        for k in range(index.sizes[block]):
            if index.first[block, k] < group:
                continue
            if index.first[block, k] > group or index.second[block, k] > own:
                break
            if holds(
                carried[0, k], carried[1, k], carried[2, k], own, below, nearest_below, above, nearest_above, point
            ):
                if used == len(out):
                    return -1
                out[used] = index.slots[block, k]
                used += 1
    return used


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


@compiled
def probe_selected(
    partners: Packed,
    join: Floats,
    own: Floats,
    by: Integers,
    group: float,
    index: Packed,
    coarse: Floats,
    coarser: Floats,
    lows: Floats,
    highs: Floats,
    cursor: Integers,
    offsets: Integers,
    lengths: Integers,
    out: Integers,
) -> None:
    """SJ-SelectFirst: the queries whose own range holds the row; each then looks for a joining row across."""
    used = cursor[1]
    for k in range(cursor[0], len(by)):
        row, begin = by[k], used
        place, offset = locate(partners, join[row], -np.inf, -1)
        if place < partners.meta[0] and partners.first[partners.order[place], offset] == join[row]:
            end = stab(index, coarse, coarser, group, own[row, 0], True, np.inf, False, 0.0, False, out, used)
            if end < 0:
                cursor[0], cursor[1] = k, begin
                return
            for j in range(begin, end):
                slot = out[j]
                if joins_within(partners, join[row], lows[slot, 0], highs[slot, 0]):
                    out[used] = slot
                    used += 1
        offsets[row], lengths[row] = begin, used - begin
    cursor[0], cursor[1] = len(by), used


@compiled
def probe_joined(
    partners: Packed,
    join: Floats,
    own: Floats,
    by: Integers,
    group: float,
    index: Packed,
    coarse: Floats,
    coarser: Floats,
    stamps: Integers,
    before: int,
    cursor: Integers,
    offsets: Integers,
    lengths: Integers,
    out: Integers,
) -> None:
    """SJ-JoinFirst over queries (E): with each joining row ask an index of all rectangles for the point."""
    used = cursor[1]
    for k in range(cursor[0], len(by)):
        row, begin = by[k], used
        place, offset = locate(partners, join[row], -np.inf, -1)
        last = np.nan
        while place < partners.meta[0]:
            block = partners.order[place]
            if offset == partners.sizes[block]:
                place, offset = place + 1, 0
                continue
            if partners.first[block, offset] != join[row]:
                break
            value = partners.second[block, offset]
            offset += 1
            if value == last:
                continue
            last = value
            start = used
            used = stab(index, coarse, coarser, group, own[row, 0], True, value, True, value, True, out, used)
            if used < 0:
                stamps[:] = 0
                cursor[0], cursor[1] = k, begin
                return
            end, used = used, start
            for j in range(start, end):
                slot = out[j]
                if stamps[slot] != before + k + 1:
                    stamps[slot] = before + k + 1
                    out[used] = slot
                    used += 1
        offsets[row], lengths[row] = begin, used - begin
    cursor[0], cursor[1] = len(by), used


@compiled
def probe_each_query(
    partners: Packed,
    join: Floats,
    own: Floats,
    by: Integers,
    slots: Integers,
    own_lows: Floats,
    own_highs: Floats,
    lows: Floats,
    highs: Floats,
    cursor: Integers,
    offsets: Integers,
    lengths: Integers,
    out: Integers,
) -> None:
    """SJ-JoinFirst over rows (S): where anything joins, each query in turn looks into the joining rows."""
    used = cursor[1]
    for k in range(cursor[0], len(by)):
        row, begin = by[k], used
        value = own[row, 0]
        place, offset = locate(partners, join[row], -np.inf, -1)
        joins = place < partners.meta[0] and partners.first[partners.order[place], offset] == join[row]
        for j in range(len(slots) if joins else 0):
            slot = slots[j]
            if own_lows[slot, 0] <= value <= own_highs[slot, 0] and joins_within(
                partners, join[row], lows[slot, 0], highs[slot, 0]
            ):
                if used == len(out):
                    cursor[0], cursor[1] = k, begin
                    return
                out[used] = slot
                used += 1
        offsets[row], lengths[row] = begin, used - begin
    cursor[0], cursor[1] = len(by), used
