"""Aggregate trees: incremental aggregates of long lists, computed anew along the paths that a batch touches.

Design
    A *leaf* aggregates up to `FAN` members, each an item's value times a factor. An *inner* node aggregates up to
    `FAN` neighbouring nodes. A query is a *root*. A node is 64 bytes, one cache line, and holds the value last
    published of the query too. A change of an item has the nodes from its leaf to the root computed anew, each once a
    batch.

Mathematics
    Nothing is ever subtracted from a published value: each is that of the present members, added in an order fixed
    by the tree. Its error is at most about FAN·(depth + 1)·2⁻⁵³ of M, the sum of magnitudes, however many changes there
    were, and equal values give equal bits.

An item's value is NaN where it has none. Lists of at most `FAN` items are kept by `kernels.short_lists`.
"""

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from slackwater.kernels.jit import compiled

Integers = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Entries = npt.NDArray[np.int32]
Marks = npt.NDArray[np.uint8]
Records = npt.NDArray[np.void]

FAN = 32
"""So many members are read in about the time of two or three accesses to memory that miss the caches."""
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
                part = members[k]["factor"] * value + 0.0  # there is one zero: of −0 and 0 neither is less
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
    """Value of a query, with a flag that is false where it has none."""
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
    """Publish a query's value if it left the bound around the one last published; returns whether it did."""
    there, value = value_of(nodes, root)
    node = nodes[root]
    if there == (node["there"] == 1) and (not there or abs(value - node["said"]) <= node["within"]):
        return False
    node["said"] = value
    node["there"] = there
    node["changed"] = position
    return True


@compiled
def plant(nodes: Records, members: Records, values: Floats, first: int, member: int, size: int, function: int) -> int:
    """Write and compute the nodes of a tree over some members: leaves first, the root last; returns the root."""
    at, below, below_size, kind = first, member, size, LEAF
    while True:
        width = max(1, (below_size + FAN - 1) // FAN)
        for k in range(width):
            node = nodes[at + k]
            node["first"], node["kind"], node["function"] = below + k * FAN, kind, function
            node["size"] = min(FAN, below_size - k * FAN)
            node["parent"] = NONE if width == 1 else at + width + k // FAN
            compute(nodes, members, values, at + k)
        if width == 1:
            return at
        at, below, below_size, kind = at + width, at, width, INNER


@compiled
def touch(
    slots: Integers,
    fresh: Floats,
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
    """Set the values of some items and find the queries to publish; writes their roots to `said`.

    `marks` has a zero for every node, before and after. Returns how many roots are in `said`, and how many memberships
    of changed items were looked at.
    """
    waiting, touches = 0, 0
    for k in range(len(slots)):
        slot, new = slots[k], fresh[k]
        old = values[slot]
        if old == new or (old != old and new != new):
            continue
        values[slot] = new
        touches += lengths[slot]
        for at in range(starts[slot], starts[slot] + lengths[slot]):
            leaf = arena[at]
            if marks[leaf] == 0:
                marks[leaf] = 1
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
