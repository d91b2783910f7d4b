"""Stabbing index: the boxes that hold a point, by segment trees over the codes of columns.

Design
    Columns come as *codes*: small integers in the order of the values (see `processing.regions.part`). A side of
    a box is a range of codes, or a sorted set of them, or all but those of a set and the last code, which is null. A
    box is filed under one of its sides: a range in the O(log K) nodes of that column's segment tree that make it up,
    a set at each of its codes. The boxes on the way from a code's leaf to the root are those whose filed side holds
    the code; their other sides are then checked.

    Node n of a tree of size M has children 2n and 2n + 1; code c is leaf M + c.

`stabbed_plainly` looks at every box.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from slackwater.kernels.jit import compiled

Integers = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

RANGE, SET, ALL_BUT = range(3)


@compiled
def count_nodes(bases: Integers, sizes: Integers, columns: Integers, lows: Integers, highs: Integers) -> Integers:
    """How many of these ranges are filed in each node of all trees; with one more place at the end."""
    counts = np.zeros(bases[-1] + 1, np.int64)
    for k in range(len(columns)):
        base, size = bases[columns[k]], sizes[columns[k]]
        left, right = lows[k] + size, highs[k] + size + 1
        while left < right:
            if left & 1:
                counts[base + left] += 1
                left += 1
            if right & 1:
                right -= 1
                counts[base + right] += 1
            left >>= 1
            right >>= 1
    return counts


@compiled
def file_boxes(
    bases: Integers,
    sizes: Integers,
    columns: Integers,
    lows: Integers,
    highs: Integers,
    boxes: Integers,
    places: Integers,
    entries: Integers,
) -> None:
    """Write the boxes to the lists of their nodes; `places` is where each list begins, and is moved on."""
    for k in range(len(columns)):
        base, size = bases[columns[k]], sizes[columns[k]]
        left, right = lows[k] + size, highs[k] + size + 1
        while left < right:
            if left & 1:
                entries[places[base + left]] = boxes[k]
                places[base + left] += 1
                left += 1
            if right & 1:
                right -= 1
                entries[places[base + right]] = boxes[k]
                places[base + right] += 1
            left >>= 1
            right >>= 1


@compiled
def holds(
    codes: Integers,
    nulls: Integers,
    row: int,
    first: int,
    last: int,
    side_columns: Integers,
    side_kinds: Integers,
    side_lows: Integers,
    side_highs: Integers,
    members: Integers,
) -> bool:
    """Whether a row lies in the box whose sides are `first` to before `last`; `codes` is columns × rows, flat."""
    rows = len(codes) // len(nulls)
    for side in range(first, last):
        column = side_columns[side]
        code = codes[column * rows + row]
        low, high = side_lows[side], side_highs[side]
        if side_kinds[side] == RANGE:
            if code < low or code > high:
                return False
            continue
        if code == nulls[column]:
            return False
        # Sets are sorted: halve until one is left.
        end = high
        while low < end:
            middle = (low + end) // 2
            if members[middle] < code:
                low = middle + 1
            else:
                end = middle
        found = low < high and members[low] == code
        if found == (side_kinds[side] == ALL_BUT):
            return False
    return True


@compiled
def stab(
    codes: Integers,
    nulls: Integers,
    present: Flags,
    bases: Integers,
    sizes: Integers,
    starts: Integers,
    entries: Integers,
    everywhere: Integers,
    alive: Flags,
    side_starts: Integers,
    side_columns: Integers,
    side_kinds: Integers,
    side_lows: Integers,
    side_highs: Integers,
    members: Integers,
    out_rows: Integers,
    out_boxes: Integers,
) -> int:
    """Write the pairs of row and box of which the row lies in the box; returns how many, which may be more than fit."""
    count, rows = 0, len(present)
    for row in range(rows):
        if not present[row]:
            continue
        for k in range(len(everywhere)):
            if alive[everywhere[k]]:
                if count < len(out_rows):
                    out_rows[count] = row
                    out_boxes[count] = everywhere[k]
                count += 1
        for column in range(len(nulls)):
            node = codes[column * rows + row] + sizes[column]
            while node:
                at = bases[column] + node
                for k in range(starts[at], starts[at + 1]):
                    box = entries[k]
                    if alive[box] and holds(
                        codes,
                        nulls,
                        row,
                        side_starts[box],
                        side_starts[box + 1],
                        side_columns,
                        side_kinds,
                        side_lows,
                        side_highs,
                        members,
                    ):
                        if count < len(out_rows):
                            out_rows[count] = row
                            out_boxes[count] = box
                        count += 1
                node >>= 1
    return count


def stabbed_plainly(points: Sequence[Sequence[int]], boxes: Sequence[Sequence[set[int]]]) -> set[tuple[int, int]]:
    """The pairs of point and box, where a box is a set of codes for each column.

    >>> sorted(stabbed_plainly([(0, 1), (2, 1)], [({0, 1}, {1}), ({2}, {0, 1})]))
    [(0, 0), (1, 1)]
    """
    return {
        (row, box)
        for row, point in enumerate(points)
        for box, sides in enumerate(boxes)
        if all(code in side for code, side in zip(point, sides, strict=True))
    }
