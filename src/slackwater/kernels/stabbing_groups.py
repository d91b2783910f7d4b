"""Stabbing partition: ranges in the fewest groups, each with a point that lies in all its ranges.

Greedy over left ends is optimal (J. Xie, dissertation, Lemma 10): a group takes ranges in the order of their left ends
as long as they overlap what all before have in common. Its groups are runs of that order, which is why `count_groups`
can jump over whole blocks of a sorted list that knows the least right end of each block.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from slackwater.kernels.jit import compiled
from slackwater.kernels.sorted_blocks import Packed

Integers = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


@compiled
def greedy_groups(low: Floats, high: Floats, out: Integers) -> int:
    """Write the group of each range, given in the order of left ends; returns how many groups there are."""
    groups, common = 0, -np.inf
    for k in range(len(low)):
        if k == 0 or low[k] > common:
            groups += 1
            common = high[k]
        else:
            common = min(common, high[k])
        out[k] = groups - 1
    return groups


def greedy_plainly(ranges: Sequence[tuple[float, float]]) -> list[list[int]]:
    """The groups of ranges, as lists of their places.

    >>> greedy_plainly([(0, 4), (3, 9), (5, 6), (1, 2)])
    [[0, 3], [1, 2]]
    """
    groups: list[list[int]] = []
    common = 0.0
    for k in sorted(range(len(ranges)), key=lambda k: ranges[k][0]):
        low, high = ranges[k]
        if groups and low <= common:
            groups[-1].append(k)
            common = min(common, high)
        else:
            groups.append([k])
            common = high
    return groups


@compiled
def count_groups(packed: Packed) -> int:
    """The least number of groups of the ranges in a list by left end that carries −(right end).

    A block whose last left end is no greater than the least right end so far, its own included, is of one group.
    """
    groups, common = 0, -np.inf
    for place in range(packed.meta[0]):
        block = packed.order[place]
        size = packed.sizes[block]
        least = min(common, -packed.tops[block, 0])
        if groups and packed.first[block, size - 1] <= least:
            common = least
            continue
        for k in range(size):
            high = -packed.carried[block, 0, k]
            if groups == 0 or packed.first[block, k] > common:
                groups += 1
                common = high
            else:
                common = min(common, high)
    return groups


@compiled
def spread_of_groups(
    groups: Integers, low: Floats, high: Floats, least: Floats, most: Floats, inner_low: Floats, inner_high: Floats
) -> None:
    """Widen the hull of each group, and narrow what is common to it, by ranges that join it."""
    for k in range(len(groups)):
        group = groups[k]
        least[group] = min(least[group], low[k])
        most[group] = max(most[group], high[k])
        inner_low[group] = max(inner_low[group], low[k])
        inner_high[group] = min(inner_high[group], high[k])
