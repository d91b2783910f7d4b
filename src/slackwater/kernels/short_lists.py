"""Aggregates of short lists: a slack test for the few that a change touches, a sweep over all where it touches many.

Design
    Queries of one function and about one length stand in *blocks* of `LANES`. The members of a block lie crosswise:
    the first of each query, then the second of each, and so on. A sweep reads slots and factors from end to end and
    keeps as many sums in registers as there are lanes. Where a list is shorter than its block is wide, and where a
    lane has no query, members are of place 0 of `values`, which has no value ever; the item of slot s is at s + 1.

    A batch that touches few queries walks the lists of its items. Of each sum or average `slack` holds two numbers:
    the *gap*, by how much its total has moved since it was last computed, and the *room* that the gap still has. A
    change adds to the gap and takes a little from the room; only where the gap leaves its room is the query computed
    anew. All others have a room below zero, or, where only items that come and go matter, a room of zero.

    A batch that touches many sweeps over all blocks instead and computes every query: reading memory in order costs
    less for a member than walking to it. Gaps are not kept up meanwhile: the first batch that touches few again sweeps
    once more, and `refresh` makes them good behind it. A query that was not touched has the total that it had, and so
    nothing to publish.

Mathematics
    Nothing is ever subtracted from a published value: each is that of the present members, added in order of their
    slots. Its error is at most about 32·2⁻⁵³ of M, the sum of magnitudes, however many changes there were, and equal
    values give equal bits.

    Neither test decides by itself; what they let through is computed and compared. A room is the bound (times the count
    for an average), less
        2⁻⁴⁶·M  +  Σ 2⁻⁴⁶·|factor|·(|old| + |new|)  +  Σ 2⁻⁵²·|gap|
    over the changes since: more than all roundings of the gap, of the sum then and of the sum now taken together. It is
    2⁻¹⁰⁰⁰ less than that, for products so small that they are rounded by more than 2⁻⁴⁶ of themselves, and never more
    than 2⁻⁴⁶·(half the greatest DOUBLE − M): so nothing overflows on the way to a sum whose gap stays inside. A sweep
    compares the distance of the sum from `center` with `reach`: for a sum these are the value published and the bound,
    so that the test is the comparison itself. For an average both are multiplied by the count n, and the reach is
    n·(bound·(1 − 2⁻⁵⁰) − 2⁻⁵⁰·|published|): the product, the quotient and two differences are rounded, each by at
    most 2⁻⁵³ of either. No reach is beyond DOUBLE: where the distance is, the query is computed. So a query that a test
    passes over would have been found within its bound by computing it, too; what is published is the same whichever
    way a batch goes, bit by bit, and a snapshot needs none of the four.

An item's value is NaN where it has none; an item that gets or loses its value has its queries computed anew.
"""

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from slackwater.kernels.aggregate_tree import AVG, COUNT, MAX, MIN
from slackwater.kernels.jit import compiled

Integers = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Entries = npt.NDArray[np.int32]
Codes = npt.NDArray[np.int8]
Marks = npt.NDArray[np.uint8]

LONGEST, LANES = 32, 4
ROUNDING, ADDING, COMPARING = 2.0**-46, 2.0**-52, 2.0**-50
LARGEST, SMALL = float(np.finfo(np.float64).max), 2.0**-1000
FREE = -1
"""The number of a lane without a query."""


class Lists(NamedTuple):
    """Blocks, members and queries. Lane k of block b is *node* LANES·b + k."""

    firsts: Integers
    """Of a block: the first of its members, how wide it is, and its function."""
    widths: Entries
    functions: Codes
    slots: Entries
    """Of a member: the place of its item in the values, and by how much it counts."""
    factors: Floats
    numbers: Integers
    """Of a node: the number of its query, the value published, whether there is one, the bound, and when it changed."""
    said: Floats
    there: Marks
    within: Floats
    changed: Integers
    slack: Floats
    """Gap and room of each node, side by side."""
    centers: Floats
    reaches: Floats


@compiled
def compute(lists: Lists, values: Floats, node: int) -> tuple[float, float, int]:
    """The total of a query, the sum of its magnitudes, and how many of its members have a value."""
    block = node // LANES
    at, function = lists.firsts[block] + node % LANES, lists.functions[block]
    total, magnitude, count = 0.0, 0.0, 0
    for _ in range(lists.widths[block]):
        value = values[lists.slots[at]]
        if value == value:
            part = lists.factors[at] * value + 0.0  # there is one zero: of −0 and 0 neither is less
            magnitude += abs(part)
            if function <= COUNT:
                total += part
            elif count == 0 or (function == MIN and part < total) or (function == MAX and part > total):
                total = part
            count += 1
        at += LANES
    return total, magnitude, count


@compiled
def value_of(function: int, total: float, count: int) -> tuple[bool, float]:
    """Value of a query, with a flag that is false where it has none."""
    if function == COUNT:
        return True, float(count)
    if count == 0:
        return False, 0.0
    value = total / count if function == AVG else total
    if not math.isfinite(value):
        return False, 0.0
    return True, value


@compiled
def give_slack(lists: Lists, node: int, total: float, magnitude: float, count: int) -> None:
    """Set how far a query that was just computed may move before it is computed again."""
    function = lists.functions[node // LANES]
    said, within = lists.said[node], lists.within[node]
    gap, room, center, reach = 0.0, -1.0, 0.0, -1.0
    if function == COUNT:
        room, reach = 0.0, math.inf  # its factors in the lists are zero: only items that come or go matter
    elif count == 0 and lists.there[node] == 0:
        reach = math.inf
    elif lists.there[node] == 1:
        center, reach = said, min(within, LARGEST)
        if function <= AVG:
            share = 1
            if function == AVG:
                share = count
                center = said * share
                reach = min(share * (within * (1 - COMPARING) - COMPARING * abs(said)), LARGEST)
            gap = total - said * share
            room = within * share * (1 - ADDING) - ROUNDING * (magnitude + abs(said) * share) - SMALL
            # Written so that a room of NaN, from numbers at the end of DOUBLE, does not stay.
            if not room <= ROUNDING * (LARGEST / 2 - magnitude):
                room = ROUNDING * (LARGEST / 2 - magnitude)
    lists.slack[2 * node] = gap
    lists.slack[2 * node + 1] = room
    lists.centers[node] = center
    lists.reaches[node] = reach


@compiled
def plant(lists: Lists, values: Floats, node: int, items: Integers, weights: Floats, anew: bool) -> None:
    """Write the members of a query into its lane, in order of their slots; publish its value if it is `anew`."""
    block = node // LANES
    slots, factors = lists.slots, lists.factors
    lane = lists.firsts[block] + node % LANES
    for k in range(lists.widths[block]):
        at = lane + k * LANES
        slot, weight = 0, 0.0
        if k < len(items):
            slot, weight = items[k] + 1, weights[k]
            while at > lane and slots[at - LANES] > slot:
                slots[at], factors[at] = slots[at - LANES], factors[at - LANES]
                at -= LANES
        slots[at], factors[at] = slot, weight
    total, magnitude, count = compute(lists, values, node)
    if anew:
        there, value = value_of(lists.functions[block], total, count)
        lists.said[node], lists.there[node] = value, there
    give_slack(lists, node, total, magnitude, count)


@compiled
def plant_all(
    lists: Lists, values: Floats, nodes: Integers, starts: Integers, items: Integers, weights: Floats
) -> None:
    """Write many queries, whose published values are known; members of query k begin at `starts[k]`."""
    for k in range(len(nodes)):
        own = slice(starts[k], starts[k + 1])
        plant(lists, values, nodes[k], items[own], weights[own], False)


@compiled
def clear(lists: Lists, node: int) -> None:
    """Take a query out of its lane."""
    block = node // LANES
    at = lists.firsts[block] + node % LANES
    for _ in range(lists.widths[block]):
        lists.slots[at], lists.factors[at] = 0, 0.0
        at += LANES
    lists.numbers[node], lists.there[node] = FREE, 0
    lists.said[node] = lists.within[node] = lists.centers[node] = lists.reaches[node] = 0.0


@compiled
def members_of(lists: Lists, nodes: Integers, sizes: Integers, items: Integers, weights: Floats) -> int:
    """Write the members of some queries one after the other; returns how many there are."""
    top = 0
    for k in range(len(nodes)):
        block = nodes[k] // LANES
        at, begun = lists.firsts[block] + nodes[k] % LANES, top
        for _ in range(lists.widths[block]):
            if lists.slots[at] > 0:
                items[top], weights[top] = lists.slots[at] - 1, lists.factors[at]
                top += 1
            at += LANES
        sizes[k] = top - begun
    return top


@compiled
def refresh(lists: Lists, values: Floats, nodes: int) -> None:
    """Give all queries their slack anew."""
    for node in range(nodes):
        if lists.numbers[node] != FREE:
            total, magnitude, count = compute(lists, values, node)
            give_slack(lists, node, total, magnitude, count)
