"""What a batch does to short lists: a walk to the queries that it touches or a sweep over all, then publishing.

`kernels.short_lists` has the layout, and the reason why a query that either passes over has nothing to publish.
"""

import numpy as np

from slackwater.kernels.aggregate_tree import AVG, MIN
from slackwater.kernels.jit import compiled
from slackwater.kernels.short_lists import (
    ADDING,
    LANES,
    ROUNDING,
    Entries,
    Floats,
    Integers,
    Lists,
    Marks,
    compute,
    give_slack,
    value_of,
)

_ONE, _TWO, _THREE, _LANES = (np.uint64(n) for n in (1, 2, 3, LANES))


@compiled
def take(
    slots: Integers, fresh: Floats, values: Floats, lengths: Integers, moved: Integers, olds: Floats
) -> tuple[int, int]:
    """Set the values of some items; lists those that have another one now, and what they had.

    Returns how many these are, and in how many lists they stand.
    """
    count, touches = 0, 0
    for k in range(len(slots)):
        slot, new = slots[k], fresh[k]
        old = values[slot + 1]
        if old == new or (old != old and new != new):
            continue
        values[slot + 1] = new
        moved[count], olds[count] = slot, old
        count += 1
        touches += lengths[slot]
    return count, touches


@compiled
def walk(
    moved: Integers,
    olds: Floats,
    values: Floats,
    starts: Integers,
    lengths: Integers,
    arena: Entries,
    factors: Floats,
    slack: Floats,
    marks: Marks,
    queue: Entries,
) -> int:
    """Mark and queue the queries that left their room; `marks` has a zero for each, before."""
    waiting = 0
    for k in range(len(moved)):
        slot, old = moved[k], olds[k]
        new = values[slot + 1]
        comes_or_goes = old != old or new != new
        change, sizes = new - old, ROUNDING * (abs(new) + abs(old))
        for at in range(starts[slot], starts[slot] + lengths[slot]):
            node, factor = arena[at], factors[at]
            gap = slack[2 * node] + factor * change
            room = slack[2 * node + 1] - abs(factor) * sizes - ADDING * abs(gap)
            slack[2 * node] = gap
            slack[2 * node + 1] = room
            # Written so that a gap of NaN, from numbers at the end of DOUBLE, does not stay inside.
            if (comes_or_goes or not abs(gap) <= room) and marks[node] == 0:
                marks[node] = 1
                queue[waiting] = node
                waiting += 1
    return waiting


@compiled
def sweep(
    moved: Integers,
    olds: Floats,
    values: Floats,
    starts: Integers,
    lengths: Integers,
    arena: Entries,
    lists: Lists,
    blocks: int,
    marks: Marks,
    queue: Entries,
) -> int:
    """Mark and queue the queries that are beyond their reach, and those of items that came or went."""
    waiting = 0
    for k in range(len(moved)):
        slot = moved[k]
        if olds[k] != olds[k] or values[slot + 1] != values[slot + 1]:
            for at in range(starts[slot], starts[slot] + lengths[slot]):
                if marks[arena[at]] == 0:
                    marks[arena[at]] = 1
                    queue[waiting] = arena[at]
                    waiting += 1
    slots, factors, centers, reaches = lists.slots, lists.factors, lists.centers, lists.reaches
    for block in range(blocks):
        function, node = lists.functions[block], LANES * block
        if function <= AVG:
            # Four sums side by side, without a call or a store between them; unsigned places have no sign to test.
            place = np.uint64(lists.firsts[block])
            a, b, c, d = 0.0, 0.0, 0.0, 0.0
            for _ in range(lists.widths[block]):
                v, w = values[np.uint64(slots[place])], values[np.uint64(slots[place + _ONE])]
                x, y = values[np.uint64(slots[place + _TWO])], values[np.uint64(slots[place + _THREE])]
                a += factors[place] * v if v == v else 0.0
                b += factors[place + _ONE] * w if w == w else 0.0
                c += factors[place + _TWO] * x if x == x else 0.0
                d += factors[place + _THREE] * y if y == y else 0.0
                place += _LANES
            if not abs(a - centers[node]) <= reaches[node] and marks[node] == 0:
                marks[node] = 1
                queue[waiting] = node
                waiting += 1
            if not abs(b - centers[node + 1]) <= reaches[node + 1] and marks[node + 1] == 0:
                marks[node + 1] = 1
                queue[waiting] = node + 1
                waiting += 1
            if not abs(c - centers[node + 2]) <= reaches[node + 2] and marks[node + 2] == 0:
                marks[node + 2] = 1
                queue[waiting] = node + 2
                waiting += 1
            if not abs(d - centers[node + 3]) <= reaches[node + 3] and marks[node + 3] == 0:
                marks[node + 3] = 1
                queue[waiting] = node + 3
                waiting += 1
        elif function >= MIN:
            for own in range(node, node + LANES):
                total, _, _ = compute(lists, values, own)
                if not abs(total - centers[own]) <= reaches[own] and marks[own] == 0:
                    marks[own] = 1
                    queue[waiting] = own
                    waiting += 1
    return waiting


@compiled
def publish(lists: Lists, values: Floats, position: int, waiting: int, marks: Marks, queue: Entries) -> int:
    """Compute the queries in `queue`, and publish the values that left their bounds: these alone stay in `queue`."""
    count = 0
    for k in range(waiting):
        node = queue[k]
        marks[node] = 0
        total, magnitude, members = compute(lists, values, node)
        there, value = value_of(lists.functions[node // LANES], total, members)
        if there != (lists.there[node] == 1) or (there and not abs(value - lists.said[node]) <= lists.within[node]):
            lists.said[node], lists.there[node], lists.changed[node] = value, there, position
            queue[count] = node
            count += 1
        give_slack(lists, node, total, magnitude, members)
    return count


def is_sweep_cheaper(touches: int, members: int) -> bool:
    """Whether a sweep over so many members costs less than a walk of so many steps: a step costs about eight."""
    return 8 * touches > members
