"""Block-wise band-join probe: scattered ranges in blocks of like length, and a cell table of the rows across.

Design
    Ranges stand in a `Packed` list by (length class, low, slot) and carry high and −high, so that a block knows its
    hull [least low, greatest high] and, where it is of one class, what its ranges have in common, [greatest low, least
    high]. No difference in the hull: none is affected. A difference in the common part: all are, and their slots are
    copied. One difference in the hull: each range is compared with it. Otherwise each range looks up its own lower
    bound in the cell table (`band_cells`). Few ranges find that their cell cannot tell: these search the rows.

    A step costs no branch that is hard to foresee, and reads what stands beside what was read before it.
"""

import numpy as np
import numpy.typing as npt

from slackwater.kernels.band_cells import SLACK, cell_of
from slackwater.kernels.band_search import seek
from slackwater.kernels.jit import compiled
from slackwater.kernels.sorted_blocks import Packed

Integers = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Cells = npt.NDArray[np.int32]

WIDTH = 2
"""What a range carries: high and −high."""


@compiled
def copy_slots(slots: Integers, start: int, size: int, out: Integers, used: int) -> None:
    """All of a block."""
    for i in range(size):
        out[np.uint64(used + i)] = slots[np.uint64(start + i)]


@compiled
def compare(
    lows: Floats,
    highs: Floats,
    slots: Integers,
    start: int,
    start_high: int,
    size: int,
    difference: float,
    out: Integers,
    used: int,
) -> int:
    """The ranges of a block that hold a difference; returns where `out` then ends."""
    for i in range(size):
        out[np.uint64(used)] = slots[np.uint64(start + i)]
        held = (lows[np.uint64(start + i)] <= difference) & (difference <= highs[np.uint64(start_high + i)])
        used += int(held)
    return used


@compiled
def look_up(
    lows: Floats,
    highs: Floats,
    slots: Integers,
    start: int,
    start_high: int,
    size: int,
    own: float,
    grid: tuple[float, float, float],
    firsts: Floats,
    lasts: Floats,
    out: Integers,
    used: int,
    places: Cells,
    doubtful: Integers,
) -> tuple[int, int]:
    """The ranges of a block that hold a difference, as far as their cells can tell; the others are `doubtful`.

    Loops without branches, one after the other: cells, what the first value tells, what the next cell tells.
    """
    origin, scale, top = grid
    slack, waiting, left = abs(own) * SLACK, 0, 0
    for i in range(size):
        low = lows[np.uint64(start + i)]
        place = (low + own - (abs(low) * SLACK + slack) - origin) * scale
        place = place if place > 0.0 else 0.0  # noqa: FURB136
        places[np.uint64(i)] = np.int32(place if place < top else top)  # noqa: FURB136
    for i in range(size):
        low, high = lows[np.uint64(start + i)], highs[np.uint64(start_high + i)]
        first = firsts[np.uint64(places[np.uint64(i)])] - own
        out[np.uint64(used)] = slots[np.uint64(start + i)]
        used += int((low <= first) & (first <= high))
        doubtful[np.uint64(waiting)] = i
        waiting += int(first < low)
    for j in range(waiting):
        i = doubtful[np.uint64(j)]
        low, high, cell = lows[np.uint64(start + i)], highs[np.uint64(start_high + i)], np.uint64(places[np.uint64(i)])
        following = firsts[cell + np.uint64(1)] - own
        out[np.uint64(used)] = slots[np.uint64(start + i)]
        hit = (low <= following) & (following <= high)
        used += int(hit)
        doubtful[np.uint64(left)] = i
        left += int((not hit) & ((low <= lasts[cell] - own) | (following < low)))
    return used, left


@compiled
def probe_blocks(
    partners: Packed,
    flip: bool,
    join: Floats,
    by: Integers,
    ranges: Packed,
    frame: Floats,
    firsts: Floats,
    lasts: Floats,
    searched: Integers,
    cursor: Integers,
    offsets: Integers,
    lengths: Integers,
    out: Integers,
) -> None:
    """The ranges affected by each row; see `band_probes` for the cursor. `searched[0]` counts ranges that search."""
    used, room = cursor[1], ranges.first.shape[1]
    # Taken out of the list once: each look at a field of a tuple may count a reference.
    order, sizes, classes, tops, blocks = ranges.order, ranges.sizes, ranges.first, ranges.tops, ranges.meta[0]
    lows, highs, slots = ranges.second.ravel(), ranges.carried.ravel(), ranges.slots.ravel()
    grid = frame[0], frame[1], frame[2]
    places, doubtful = np.empty(room, np.int32), np.empty(room, np.int64)
    for k in range(cursor[0], len(by)):
        begin, row = used, join[by[k]]
        own = -row if flip else row
        slack, near = abs(own) * SLACK, -1
        for nth in range(blocks):
            block = order[nth]
            start, start_high, size = block * room, block * WIDTH * room, sizes[block]
            if used + size > len(out):
                cursor[0], cursor[1] = k, begin
                return
            if classes[block, 0] == classes[block, size - 1]:
                low, most = lows[start], tops[block, 0]
                cell = cell_of(low + own - (abs(low) * SLACK + slack), frame)
                if firsts[cell] - own < low and not low <= lasts[cell] - own:
                    cell += 1
                value = firsts[cell]
                difference = value - own
                if not difference <= most:
                    continue
                last = lows[start + size - 1]
                cell = cell_of(last + own - (abs(last) * SLACK + slack), frame)
                if firsts[cell] - own < last:
                    cell += 1
                if last <= firsts[cell] - own <= -tops[block, 1]:
                    copy_slots(slots, start, size, out, used)
                    used += size
                    continue
                cell = cell_of(value, frame)
                if difference >= low and lasts[cell] == value and not firsts[cell + 1] - own <= most:
                    used = compare(lows, highs, slots, start, start_high, size, difference, out, used)
                    continue
            used, waiting = look_up(
                lows, highs, slots, start, start_high, size, own, grid, firsts, lasts, out, used, places, doubtful
            )
            searched[0] += waiting
            for j in range(waiting):
                at = doubtful[j]
                low, high = lows[start + at], highs[start_high + at]
                near, offset = seek(partners, row, high if flip else low, 2 if flip else 1, near)
                if near == partners.meta[0]:
                    continue
                value = partners.first[partners.order[near], offset]
                if (row - value >= low) if flip else (value - row <= high):
                    out[used] = slots[start + at]
                    used += 1
        offsets[by[k]], lengths[by[k]] = begin, used - begin
    cursor[0], cursor[1] = len(by), used
