"""Aggregates of listed items as shallow trees that are computed anew along the paths that a change touches.

Design
    A *leaf* aggregates up to `FAN` members, each an item's value times a factor. An *inner* node aggregates up to
    `FAN` neighbouring nodes. A query is a *root*; with few members it is a single leaf. A node is 64 bytes, one cache
    line, and holds what was said of the query too, so that looking at a query costs about one access to memory.

    `touch` marks the leaves of changed items, computes each anew from its members, then the inner nodes above them
    level by level, and compares every root that it reaches with what was said.

Mathematics
    Nothing is ever subtracted. Every sum is the sum of the present values in an order fixed by the tree, with depth
    d = log₃₂(members): its error is at most about (FAN·(d + 1))·2⁻⁵³ of the sum of magnitudes, however many changes
    there were, and equal values give equal bits. Minimum and maximum go by the same way. A query of n members costs
    FAN·(d + 1) a touched path instead of n; FAN is where re-reading a leaf costs as much as one missed access.

An item's value is NaN where it has none.
"""

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from slackwater.kernels.compiled import compiled

Integers = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Entries = npt.NDArray[np.int32]
Marks = npt.NDArray[np.uint8]
Records = npt.NDArray[np.void]

FAN = 32
SUM, AVG, COUNT, MIN, MAX = range(5)
LEAF, INNER = range(2)
NONE = -1

NODE = np.dtype(
    [
        ("first", np.int64),  # of a leaf its first member, of an inner node its first child
        ("total", np.float64),
        ("said", np.float64),
        ("within", np.float64),
        ("number", np.int64),
        ("changed", np.int64),
        ("count", np.int32),
        ("size", np.int32),
        ("parent", np.int32),
        ("function", np.int8),
        ("there", np.int8),
        ("kind", np.int8),
        ("spare", np.int8),
    ]
)
MEMBER = np.dtype([("slot", np.int64), ("factor", np.float64)])


@compiled
def compute(nodes: Records, members: Records, values: Floats, at: int) -> None:
    """Compute one node anew from its members or children."""
    node = nodes[at]
    first, function = node["first"], node["function"]
    total, count = 0.0, 0
    if node["kind"] == LEAF:
        for k in range(first, first + node["size"]):
            value = values[members[k]["slot"]]
            if value == value:
                part = members[k]["factor"] * value
                if function <= COUNT:
                    total += part
                elif count == 0 or (function == MIN and part < total) or (function == MAX and part > total):
                    total = part
                count += 1
    else:
        for k in range(first, first + node["size"]):
            own = nodes[k]["count"]
            if own > 0:
                part = nodes[k]["total"]
                if function <= COUNT:
                    total += part
                elif count == 0 or (function == MIN and part < total) or (function == MAX and part > total):
                    total = part
                count += own
    node["total"] = total
    node["count"] = count


@compiled
def value_of(nodes: Records, root: int) -> tuple[bool, float]:
    """Whether a query has a value, and which."""
    node = nodes[root]
    count, function = node["count"], node["function"]
    if function == COUNT:
        return True, float(count)
    if count == 0:
        return False, 0.0
    value = node["total"] / count if function == AVG else node["total"]
    if not math.isfinite(value):
        return False, 0.0
    return True, value


@compiled
def say(nodes: Records, root: int, position: int) -> bool:
    """Compare a query with what was said of it; where that is too far off, say what it is now."""
    there, value = value_of(nodes, root)
    node = nodes[root]
    if there == (node["there"] == 1) and (not there or abs(value - node["said"]) <= node["within"]):
        return False
    node["said"] = value
    node["there"] = there
    node["changed"] = position
    return True


@compiled
def touch(
    slots: Integers,
    starts: Integers,
    lengths: Integers,
    arena: Entries,
    nodes: Records,
    members: Records,
    values: Floats,
    marks: Marks,
    queue: Entries,
    position: int,
    said: Entries,
) -> tuple[int, int]:
    """Bring all queries of changed items up to date; writes the roots that have something to say to `said`.

    `marks` has a zero for every node, before and after. Returns how many roots are in `said`, and how many memberships
    of changed items there were.
    """
    waiting, touches = 0, 0
    for k in range(len(slots)):
        slot = slots[k]
        start = starts[slot]
        touches += lengths[slot]
        for at in range(start, start + lengths[slot]):
            leaf = arena[at]
            if marks[leaf] == 0:
                marks[leaf] = 1
                queue[waiting] = leaf
                waiting += 1
    if waiting * 8 > len(marks):
        # Most leaves are touched: going through memory in order is faster than in the order of the queue.
        waiting = 0
        for leaf in range(len(marks)):
            if marks[leaf]:
                queue[waiting] = leaf
                waiting += 1
    done, count = 0, 0
    # Leaves come before the nodes above them, and those before theirs: first in, first out keeps the levels apart.
    while done < waiting:
        at = queue[done]
        done += 1
        marks[at] = 0
        compute(nodes, members, values, at)
        parent = nodes[at]["parent"]
        if parent == NONE:
            if say(nodes, at, position):
                said[count] = at
                count += 1
        elif marks[parent] == 0:
            marks[parent] = 1
            queue[waiting] = parent
            waiting += 1
    return count, touches


def aggregated_plainly(function: int, parts: Sequence[float]) -> float | None:
    """The value of a query whose members contribute these parts.

    >>> aggregated_plainly(AVG, [1.0, 2.0]), aggregated_plainly(MIN, []), aggregated_plainly(COUNT, [])
    (1.5, None, 0.0)
    """
    if function == COUNT:
        return float(len(parts))
    if not parts:
        return None
    if function == MIN:
        return min(parts)
    if function == MAX:
        return max(parts)
    return math.fsum(parts) / (len(parts) if function == AVG else 1)
