"""k-d tree: places halved again and again, so that a box is made up of few nodes; and the edges from boxes to nodes.

Design
    The tree over n places has 2n − 1 nodes: node k < n is place k itself, the others are inner nodes, each split in
    the middle along the axis in which its places are spread the most. A box is made up of the largest nodes that lie
    in it: O(n^(1−1/d)) of them for d axes, O(log n) for one. A range tree has O((2·log n)^d) of them and O(n·log^(d−1)
    n) nodes: at ten thousand places in two axes 784 to 400, and a graph fourteen times as large, so halving it is.

`made_up_plainly` lists the places in a box.
"""

import numpy as np
import numpy.typing as npt

from slackwater.kernels.jit import compiled

Integers = npt.NDArray[np.int64]


@compiled
def halve(places: Integers) -> tuple[Integers, Integers, Integers]:
    """The tree: the two children of each inner node, and the lowest and highest coordinates below every node.

    Inner node n + k has the children `children[k]`; the last node is the root.
    """
    count, axes = places.shape
    children = np.empty((max(count - 1, 0), 2), np.int64)
    lows, highs = np.empty((2 * count - 1, axes), np.int64), np.empty((2 * count - 1, axes), np.int64)
    lows[:count], highs[:count] = places, places
    order = np.arange(count)
    # Work from the root down; inner nodes get numbers from the end so that children come before their parents.
    stack = np.empty((count + 64, 3), np.int64)
    stack[0] = 0, count, 2 * count - 2
    waiting, free = 1, 2 * count - 3
    while waiting:
        waiting -= 1
        start, end, node = stack[waiting]
        if end - start == 1:
            continue
        own = order[start:end]
        widest = 0
        for axis in range(axes):
            low = high = places[own[0], axis]
            for k in own:
                low, high = min(low, places[k, axis]), max(high, places[k, axis])
            lows[node, axis], highs[node, axis] = low, high
            if high - low > highs[node, widest] - lows[node, widest]:
                widest = axis
        keys = np.empty(end - start, np.int64)
        for k in range(end - start):
            keys[k] = places[own[k], widest]
        order[start:end] = own[np.argsort(keys, kind="mergesort")]
        middle = (start + end) // 2
        for side in range(2):
            left, right = (start, middle) if side == 0 else (middle, end)
            if right - left == 1:
                children[node - count, side] = order[left]
            else:
                children[node - count, side] = free
                stack[waiting] = left, right, free
                waiting += 1
                free -= 1
    return children, lows, highs


@compiled
def _beside(box_low: Integers, box_high: Integers, low: Integers, high: Integers) -> tuple[bool, bool]:
    """Whether a node lies apart from a box, and whether it lies in it."""
    apart, inside = False, True
    for axis in range(len(low)):
        apart |= low[axis] > box_high[axis] or high[axis] < box_low[axis]
        inside &= box_low[axis] <= low[axis] and high[axis] <= box_high[axis]
    return apart, inside


@compiled
def made_up(
    owners: Integers, box_lows: Integers, box_highs: Integers, children: Integers, lows: Integers, highs: Integers
) -> tuple[Integers, Integers]:
    """The nodes that make up each box, as pairs (owner, node); overlapping boxes of one owner can name a node twice."""
    count = len(children) + 1
    from_, to = np.empty(1024, np.int64), np.empty(1024, np.int64)
    stack = np.empty(4096, np.int64)
    used = 0
    for box in range(len(owners)):
        stack[0] = 2 * count - 2
        waiting = 1
        while waiting:
            waiting -= 1
            node = stack[waiting]
            apart, inside = _beside(box_lows[box], box_highs[box], lows[node], highs[node])
            if apart:
                continue
            if not inside:
                stack[waiting], stack[waiting + 1] = children[node - count]
                waiting += 2
                continue
            if used == len(to):
                from_, to = np.concatenate((from_, np.empty_like(from_))), np.concatenate((to, np.empty_like(to)))
            from_[used], to[used] = owners[box], node
            used += 1
    return from_[:used], to[:used]


@compiled
def held(box_lows: Integers, box_highs: Integers, children: Integers, lows: Integers, highs: Integers) -> Integers:
    """The numbers of the places that lie in any of the boxes, each once, from low to high."""
    count = len(children) + 1
    marked = np.zeros(2 * count - 1, np.bool_)
    stack = np.empty(4096, np.int64)
    found = np.empty(1024, np.int64)
    used = 0
    for box in range(len(box_lows)):
        stack[0] = 2 * count - 2
        waiting = 1
        while waiting:
            waiting -= 1
            node = stack[waiting]
            if marked[node]:
                continue  # all below it have been found
            apart, inside = _beside(box_lows[box], box_highs[box], lows[node], highs[node])
            if apart:
                continue
            marked[node] = inside
            if node >= count:
                stack[waiting], stack[waiting + 1] = children[node - count]
                waiting += 2
                continue
            if used == len(found):
                found = np.concatenate((found, np.empty_like(found)))
            found[used] = node
            used += 1
    return np.sort(found[:used])


def made_up_plainly(low: Integers, high: Integers, places: Integers) -> list[int]:
    """The numbers of the places in a box.

    >>> made_up_plainly(np.array([1]), np.array([2]), np.array([[0], [1], [2]]))
    [1, 2]
    """
    return [k for k, place in enumerate(places) if (low <= place).all() and (place <= high).all()]
