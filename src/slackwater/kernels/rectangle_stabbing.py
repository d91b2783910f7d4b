"""Rectangle stabbing: the queries of a group whose own range holds a row, and whose range across holds a point.

A query of a select-join is a rectangle: its range on the row's own side, times its range across. `Packed` lists have
rectangles by (group, left end of the own range) and carry (right end of the own range, −left end across, right end
across), so that the maxima of a block show whether it can hold anything of use; `coarse` and `coarser` have those
maxima for 16 and for 256 blocks of the directory together.
"""

import numpy as np
import numpy.typing as npt

from slackwater.kernels.jit import compiled
from slackwater.kernels.sorted_blocks import Packed, find_block

Integers = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


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
