"""Block-wise band-join probe: scattered ranges in blocks of like length, and a cell table of the rows across.

Design
    Ranges stand in a `Packed` list by (length class, low, slot) and carry high and −high, so that a block knows its
    hull [least low, greatest high] and, where it is of one class, what its ranges have in common, [greatest low, least
    high]. No difference in the hull: none is affected. A difference in the common part: all are. Few differences in
    the hull: each finds the ranges that begin before it, no farther away than ranges of the class are long. Otherwise
    each range looks up its own lower bound in the cell table (`band_cells`). Few ranges find that their cell cannot
    tell: these search the rows.

    Some rows at a time go through the blocks together, so that a block is read from memory once for all of them.
    Affected ranges are marked in a bitmap of slots for each row, small enough for the cache, and read from it in rising
    order. Loops have no branch that is hard to foresee.
"""

import numpy as np
import numpy.typing as npt

from slackwater.kernels.band_cells import SLACK, Crowds, cell_of
from slackwater.kernels.band_search import seek
from slackwater.kernels.jit import compiled, trailing_zeros
from slackwater.kernels.sorted_blocks import Packed

Integers = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Cells = npt.NDArray[np.int32]
Marks = npt.NDArray[np.uint64]

WIDTH = 2
"""What a range carries: high and −high."""
CLASS = 3
"""Ranges of one class differ in length by a factor of less than 2 to this: of fewer, a block is spread too far."""
LOOK, FIND = 2.0, 40.0
"""What a look of one range costs, and of one difference to find its place, where to walk past a range costs 1."""


@compiled
def mark(slots: Integers, start: int, chosen: Integers, count: int, marks: Marks, base: int) -> None:
    """Mark the chosen ranges of a block, in the bitmap that begins at `base`."""
    # Unsigned places, here and below: of a signed one it is asked each time whether it counts from the end.
    for k in range(count):
        slot = np.uint64(slots[np.uint64(start + chosen[np.uint64(k)])])
        marks[np.uint64(base) + (slot >> np.uint64(6))] |= np.uint64(1) << (slot & np.uint64(63))


@compiled
def mark_all(slots: Integers, start: int, size: int, marks: Marks, base: int) -> None:
    """Mark all ranges of a block."""
    for k in range(start, start + size):
        slot = np.uint64(slots[np.uint64(k)])
        marks[np.uint64(base) + (slot >> np.uint64(6))] |= np.uint64(1) << (slot & np.uint64(63))


@compiled
def read_marks(marks: Marks, base: int, words: int, out: Integers, used: int) -> int:
    """Write the slots that are marked, in rising order, and clear the bitmap; returns where `out` then ends."""
    for k in range(words):
        word, first = marks[np.uint64(base + k)], k << 6
        marks[np.uint64(base + k)] = np.uint64(0)
        while word:
            out[np.uint64(used)] = first + trailing_zeros(word)
            used += 1
            word &= word - np.uint64(1)
    return used


@compiled
def mark_held(
    slots: Integers,
    lows: Floats,
    highs: Floats,
    start: int,
    start_high: int,
    size: int,
    difference: float,
    longest: float,
    marks: Marks,
    base: int,
) -> None:
    """Mark the ranges of a block, in the order of low and none longer than `longest`, that hold a difference."""
    begin, end = start, start + size
    while begin < end:
        middle = (begin + end) >> 1
        if lows[middle] <= difference:
            begin = middle + 1
        else:
            end = middle
    at = begin - 1
    # Rounding is monotone: a range that holds the difference is at least as long, rounded, as this is.
    while at >= start and difference - lows[at] <= longest:
        if difference <= highs[start_high + at - start]:
            slot = np.uint64(slots[at])
            marks[np.uint64(base) + (slot >> np.uint64(6))] |= np.uint64(1) << (slot & np.uint64(63))
        at -= 1


@compiled
def look_up(
    lows: Floats,
    highs: Floats,
    start: int,
    start_high: int,
    size: int,
    own: float,
    grid: tuple[float, float, float],
    firsts: Floats,
    lasts: Floats,
    crowds: Crowds,
    places: Cells,
    chosen: Integers,
    doubtful: Integers,
) -> tuple[int, int]:
    """Choose the ranges of a block that hold a difference, as far as their cells can tell; the others are `doubtful`.

    Loops one after the other: cells, what the first value tells, what the next cell tells, what the last value tells.
    """
    origin, scale, top = grid
    slack, count, waiting, left = abs(own) * SLACK, 0, 0, 0
    for i in range(size):
        low = lows[np.uint64(start + i)]
        place = (low + own - (abs(low) * SLACK + slack) - origin) * scale
        place = place if place > 0.0 else 0.0  # noqa: FURB136
        places[np.uint64(i)] = np.int32(place if place < top else top)  # noqa: FURB136
    for i in range(size):
        low, high = lows[np.uint64(start + i)], highs[np.uint64(start_high + i)]
        first = firsts[np.uint64(places[np.uint64(i)])] - own
        chosen[np.uint64(count)] = i
        count += int((low <= first) & (first <= high))
        doubtful[np.uint64(waiting)] = i
        waiting += int(first < low)
    for j in range(waiting):
        i = doubtful[np.uint64(j)]
        low, high, cell = lows[np.uint64(start + i)], highs[np.uint64(start_high + i)], np.uint64(places[np.uint64(i)])
        following = firsts[cell + np.uint64(1)] - own
        hit = (low <= following) & (following <= high)
        chosen[np.uint64(count)] = i
        count += int(hit)
        doubtful[np.uint64(left)] = i
        left += int((not hit) & ((crowds[cell] > 1) | (following < low)))
    waiting, left = left, 0
    for j in range(waiting):
        i = doubtful[np.uint64(j)]
        low, high, cell = lows[np.uint64(start + i)], highs[np.uint64(start_high + i)], np.uint64(places[np.uint64(i)])
        following, last = firsts[cell + np.uint64(1)] - own, lasts[cell] - own
        if low <= last <= high:
            chosen[np.uint64(count)] = i
            count += 1
        elif (low <= last and crowds[cell] > 2) or following < low:
            # Of three values in a cell or more, one between the first and the last may be held.
            doubtful[np.uint64(left)] = i
            left += 1
    return count, left


@compiled
def search(
    partners: Packed,
    flip: bool,
    row: float,
    near: int,
    lows: Floats,
    highs: Floats,
    start: int,
    start_high: int,
    doubtful: Integers,
    waiting: int,
    chosen: Integers,
) -> tuple[int, int]:
    """Choose, of the doubtful ranges, those that hold a difference, and return how many; and where to look next."""
    count = 0
    for j in range(waiting):
        at = doubtful[j]
        low, high = lows[start + at], highs[start_high + at]
        near, offset = seek(partners, row, high if flip else low, 2 if flip else 1, near)
        if near < partners.meta[0]:
            value = partners.first[partners.order[near], offset]
            if (row - value >= low) if flip else (value - row <= high):
                chosen[count] = at
                count += 1
    return count, near


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
    crowds: Crowds,
    others: tuple[Integers, Integers, Integers],
    marks: Marks,
    words: int,
    most_found: int,
    searched: Integers,
    cursor: Integers,
    offsets: Integers,
    lengths: Integers,
    out: Integers,
) -> None:
    """The ranges affected by each row; see `band_probes` for the cursor.

    `others` says where slots that were found otherwise begin for each row, how many they are, and which. `marks` has
    bitmaps of so many words for as many rows as go together, all clear; `most_found` slots may be found for one row.
    `searched[0]` counts the ranges that search.
    """
    # Taken out of the list once: each look at a field of a tuple may count a reference.
    order, sizes, classes, tops, blocks = ranges.order, ranges.sizes, ranges.first, ranges.tops, ranges.meta[0]
    lows, highs, slots, room = ranges.second.ravel(), ranges.carried.ravel(), ranges.slots.ravel(), classes.shape[1]
    scarcity = partners.meta[3] / len(lasts)
    grid, together = (frame[0], frame[1], frame[2]), len(marks) // words
    places, chosen, doubtful = np.empty(room, np.int32), np.empty(room, np.int64), np.empty(room, np.int64)
    near = np.empty(together, np.int64)
    for begin in range(cursor[0], len(by), together):
        count = min(together, len(by) - begin)
        if cursor[1] + count * most_found > len(out):
            return
        near[:] = -1
        for k in range(count):
            for at in range(others[0][by[begin + k]], others[0][by[begin + k]] + others[1][by[begin + k]]):
                slot = np.uint64(others[2][at])
                marks[np.uint64(k * words) + (slot >> np.uint64(6))] |= np.uint64(1) << (slot & np.uint64(63))
        for nth in range(blocks):
            block = order[nth]
            start, start_high, size = block * room, block * WIDTH * room, sizes[block]
            alike = classes[block, 0] == classes[block, size - 1]
            low, last, most, least_high = lows[start], lows[start + size - 1], tops[block, 0], -tops[block, 1]
            longest = 2.0 ** (CLASS * classes[block, 0] + CLASS - 1)
            # Differences that cost as much as looking each range up: fewer where each meets many ranges.
            share = min(longest / max(last - low, 1e-300), 1.0)
            worth = size * LOOK / (FIND + share * size)
            for k in range(count):
                row, base = join[by[begin + k]], k * words
                own = -row if flip else row
                if alike:
                    slack = abs(own) * SLACK
                    cell = cell_of(low + own - (abs(low) * SLACK + slack), frame)
                    if firsts[cell] - own < low and not low <= lasts[cell] - own:
                        cell += 1
                    value = firsts[cell]
                    difference = value - own
                    if not difference <= most:
                        continue
                    cell = cell_of(last + own - (abs(last) * SLACK + slack), frame)
                    if firsts[cell] - own < last:
                        cell += 1
                    if last <= firsts[cell] - own <= least_high:
                        mark_all(slots, start, size, marks, base)
                        continue
                    cell = cell_of(value, frame)
                    if difference >= low and (cell_of(most + own, frame) - cell) * scarcity < worth:
                        # From one value to the next, as long as cells tell which it is.
                        while difference <= most and lasts[cell] == value:
                            mark_held(slots, lows, highs, start, start_high, size, difference, longest, marks, base)
                            value = firsts[cell + 1]
                            difference, cell = value - own, cell_of(value, frame)
                        if not difference <= most:
                            continue
                found, waiting = look_up(
                    lows, highs, start, start_high, size, own, grid, firsts, lasts, crowds, places, chosen, doubtful
                )
                mark(slots, start, chosen, found, marks, base)
                if waiting:
                    searched[0] += waiting
                    found, near[k] = search(
                        partners, flip, row, near[k], lows, highs, start, start_high, doubtful, waiting, chosen
                    )
                    mark(slots, start, chosen, found, marks, base)
        for k in range(count):
            used = read_marks(marks, k * words, words, out, cursor[1])
            offsets[by[begin + k]], lengths[by[begin + k]] = cursor[1], used - cursor[1]
            cursor[1] = used
        cursor[0] = begin + count
