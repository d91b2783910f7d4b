"""Band-join probes: the queries affected by an arriving row, by stabbing groups (BJ-SSI), query by query, by merging.

All kernels take rows in the order `by` (near ones after each other find the same blocks in the cache), go on where the
cursor stands, and stop before a row for which there is no more room; see `processing.matching.index_base.collect`.
`flip` is true for rows of the right side.
"""

import numpy as np
import numpy.typing as npt

from slackwater.kernels.band_search import neighbours, seek
from slackwater.kernels.jit import compiled
from slackwater.kernels.sorted_blocks import Packed

Integers = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Starts = tuple[Integers, Integers]
"""Where the entries of each group begin: places and offsets."""


@compiled
def probe_groups(
    partners: Packed,
    flip: bool,
    join: Floats,
    by: Integers,
    points: Floats,
    groups: Integers,
    least: Floats,
    most: Floats,
    lefts: Packed,
    left_starts: Starts,
    rights: Packed,
    right_starts: Starts,
    low: Floats,
    cursor: Integers,
    offsets: Integers,
    lengths: Integers,
    out: Integers,
) -> None:
    """BJ-SSI. A group's ranges all hold its point: those that hold any difference hold the nearest on one side of it.

    `points`, `groups`, `least` and `most` are those of the groups, beside each other. `lefts` has (group, left end),
    `rights` (group, −right end), with the places at which the groups begin; a range found in both is taken from the
    first. Beginnings of lists are all that is read, the same for every row: they stay in the cache, however many
    queries there are.
    """
    used = cursor[1]
    for k in range(cursor[0], len(by)):
        join_value, begin = join[by[k]], used
        place, crowded = -1, 8 * len(points) > partners.meta[0]
        for g in range(len(points)):
            # Many groups: the next point is near the last one. Few: it is not, and halving is quicker.
            below, nearest_below, above, nearest_above, place = neighbours(
                partners, join_value, points[g], flip, min(place, partners.meta[0] - 1) if crowded else -1
            )
            if below and least[g] <= nearest_below:
                at, offset = left_starts[0][g], left_starts[1][g]
                while at < lefts.meta[0]:
                    block = lefts.order[at]
                    size = lefts.sizes[block]
                    while (
                        offset < size
                        and lefts.first[block, offset] == groups[g]
                        and lefts.second[block, offset] <= nearest_below
                    ):
                        if used == len(out):
                            cursor[0], cursor[1] = k, begin
                            return
                        out[used] = lefts.slots[block, offset]
                        used += 1
                        offset += 1
                    if offset < size:
                        break
                    at, offset = at + 1, 0
            if above and most[g] >= nearest_above:
                at, offset = right_starts[0][g], right_starts[1][g]
                while at < rights.meta[0]:
                    block = rights.order[at]
                    size = rights.sizes[block]
                    while (
                        offset < size
                        and rights.first[block, offset] == groups[g]
                        and -rights.second[block, offset] >= nearest_above
                    ):
                        slot = rights.slots[block, offset]
                        if not below or low[slot] > nearest_below:
                            if used == len(out):
                                cursor[0], cursor[1] = k, begin
                                return
                            out[used] = slot
                            used += 1
                        offset += 1
                    if offset < size:
                        break
                    at, offset = at + 1, 0
        offsets[by[k]], lengths[by[k]] = begin, used - begin
    cursor[0], cursor[1] = len(by), used


@compiled
def count_by_groups(
    partners: Packed,
    flip: bool,
    join: Floats,
    by: Integers,
    points: Floats,
    groups: Integers,
    inner_low: Floats,
    inner_high: Floats,
    sizes: Integers,
    lefts: Packed,
    left_starts: Starts,
    rights: Packed,
    right_starts: Starts,
    low: Floats,
    counts: Integers,
) -> None:
    """BJ-SSI that only counts: a group in whose common part a difference lies counts as a whole, without a look."""
    for k in range(len(by)):
        count = 0
        for g in range(len(points)):
            below, nearest_below, above, nearest_above, _ = neighbours(partners, join[by[k]], points[g], flip, -1)
            if (below and nearest_below >= inner_low[g]) or (above and nearest_above <= inner_high[g]):
                count += sizes[g]
                continue
            at, offset = left_starts[0][g], left_starts[1][g]
            while below and at < lefts.meta[0]:
                block = lefts.order[at]
                if lefts.first[block, offset] != groups[g] or lefts.second[block, offset] > nearest_below:
                    break
                count += 1
                offset += 1
                if offset == lefts.sizes[block]:
                    at, offset = at + 1, 0
            at, offset = right_starts[0][g], right_starts[1][g]
            while above and at < rights.meta[0]:
                block = rights.order[at]
                if rights.first[block, offset] != groups[g] or -rights.second[block, offset] < nearest_above:
                    break
                if not below or low[rights.slots[block, offset]] > nearest_below:
                    count += 1
                offset += 1
                if offset == rights.sizes[block]:
                    at, offset = at + 1, 0
        counts[by[k]] = count


@compiled
def probe_each_query(
    partners: Packed,
    flip: bool,
    join: Floats,
    by: Integers,
    slots: Integers,
    low: Floats,
    high: Floats,
    cursor: Integers,
    offsets: Integers,
    lengths: Integers,
    out: Integers,
) -> None:
    """BJ-QOuter: of each query look for the first row in its range."""
    used = cursor[1]
    for k in range(cursor[0], len(by)):
        own, begin = join[by[k]], used
        place = -1
        for j in range(len(slots)):
            slot = slots[j]
            place, offset = seek(partners, own, high[slot] if flip else low[slot], 2 if flip else 1, place)
            if place == partners.meta[0]:
                continue
            value = partners.first[partners.order[place], offset]
            if (own - value >= low[slot]) if flip else (value - own <= high[slot]):
                if used == len(out):
                    cursor[0], cursor[1] = k, begin
                    return
                out[used] = slot
                used += 1
        offsets[by[k]], lengths[by[k]] = begin, used - begin
    cursor[0], cursor[1] = len(by), used


@compiled
def probe_by_merging(
    differences: Floats,
    own: float,
    flip: bool,
    low: Floats,
    high: Floats,
    slots: Integers,
    out: Integers,
) -> int:
    """BJ-MJ: ranges by left end and rows by difference, both in order, walked side by side; returns how many.

    `differences` holds the rows' join values in the order in which the difference to `own` rises.
    """
    used, i = 0, 0
    for k in range(len(slots)):
        while i < len(differences) and (own - differences[i] if flip else differences[i] - own) < low[k]:
            i += 1
        if i == len(differences):
            break
        if (own - differences[i] if flip else differences[i] - own) <= high[k]:
            out[used] = slots[k]
            used += 1
    return used
