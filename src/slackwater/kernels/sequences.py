"""Interval set: duplicate detection of sequence numbers, kept as disjoint ranges.

Design
    The numbers seen are ranges `starts[k]..ends[k]` (both inclusive), in order, with a gap between neighbours. A source
    that numbers its rows without holes needs one range for ever, however long it runs; each hole costs one more.
    A batch of numbers in order is merged with the ranges in one pass over both, so the cost does not depend on how
    many holes there are beyond reading them.

`admit` is compiled, `admit_plainly` is its twin over Python values.
"""

from bisect import bisect_right

import numpy as np
import numpy.typing as npt

from slackwater.kernels.jit import compiled

Integers = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]


@compiled
def admit(
    starts: Integers, ends: Integers, numbers: Integers, fresh: Flags, new_starts: Integers, new_ends: Integers
) -> int:
    """Merge `numbers`, which must not decrease, into the ranges; flag in `fresh` those that were in none.

    Writes the ranges that result to `new_starts` and `new_ends`, which must have room for all ranges and all numbers,
    and returns how many there are. Of equal numbers only the first can be fresh.
    """
    count = 0
    old = 0
    for i in range(len(numbers)):
        number = numbers[i]
        while old < len(starts) and starts[old] <= number:
            if count > 0 and starts[old] - 1 <= new_ends[count - 1]:
                new_ends[count - 1] = ends[old]
            else:
                new_starts[count] = starts[old]
                new_ends[count] = ends[old]
                count += 1
            old += 1
        if count > 0 and number <= new_ends[count - 1]:
            fresh[i] = False
            continue
        fresh[i] = True
        if count > 0 and number - 1 == new_ends[count - 1]:
            new_ends[count - 1] = number
        else:
            new_starts[count] = number
            new_ends[count] = number
            count += 1
    while old < len(starts):
        if count > 0 and starts[old] - 1 <= new_ends[count - 1]:
            new_ends[count - 1] = ends[old]
        else:
            new_starts[count] = starts[old]
            new_ends[count] = ends[old]
            count += 1
        old += 1
    return count


def admit_plainly(ranges: list[tuple[int, int]], numbers: list[int]) -> list[bool]:
    """The same one number at a time, in any order, on a list of (start, end) that is changed in place.

    >>> ranges = [(1, 3)]
    >>> admit_plainly(ranges, [3, 5, 4])
    [False, True, True]
    >>> ranges
    [(1, 5)]
    """
    fresh: list[bool] = []
    for number in numbers:
        place = bisect_right(ranges, number, key=lambda pair: pair[0])
        new = place == 0 or ranges[place - 1][1] < number
        fresh.append(new)
        if not new:
            continue
        ranges.insert(place, (number, number))
        for left in (place, place - 1):
            if left >= 0 and left + 1 < len(ranges) and ranges[left][1] + 1 == ranges[left + 1][0]:
                ranges[left : left + 2] = [(ranges[left][0], ranges[left + 1][1])]
    return fresh
