"""Which sequence numbers are new: a set of integers kept as disjoint ranges.

Design
    `starts[k]..ends[k]` (both inclusive, k < count) are the ranges seen, in order, with a gap between neighbours.
    A source that numbers its rows without holes needs one range for ever, however long it runs; each hole costs
    one more. `capacity` bounds them: when one too many is needed, the lowest gap is closed, which means that the
    numbers in it are given up and will look like repeats should they come after all. The caller is told how many
    were given up.

    Consecutive numbers mostly extend the range that the number before them fell into, so that range is tried
    before the binary search: the common case costs two comparisons.

`admit` is compiled, `admit_plainly` is its twin over Python lists.
"""

from bisect import bisect_right

import numpy as np
import numpy.typing as npt

from slackwater.kernels.compiled import compiled

Integers = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]


@compiled
def admit(starts: Integers, ends: Integers, count: int, sequences: Integers, fresh: Flags) -> tuple[int, int]:
    """Add `sequences` to the ranges in place and flag in `fresh` those that were not in them.

    Returns the new number of ranges, and how many numbers were given up. The arrays' length is the capacity plus
    one, the spare place being used while a range is inserted.
    """
    capacity = len(starts) - 1
    given_up = 0
    hot = count - 1
    for i in range(len(sequences)):
        number = sequences[i]
        if hot < 0 or number < starts[hot] or (hot + 1 < count and number >= starts[hot + 1]):
            # The last range that starts at or before the number, -1 if none does.
            low, high = 0, count
            while low < high:
                middle = (low + high) // 2
                if starts[middle] <= number:
                    low = middle + 1
                else:
                    high = middle
            hot = low - 1
        if hot >= 0 and number <= ends[hot]:
            fresh[i] = False
            continue
        fresh[i] = True
        touches_left = hot >= 0 and number == ends[hot] + 1
        touches_right = hot + 1 < count and number == starts[hot + 1] - 1
        if touches_left and touches_right:
            ends[hot] = ends[hot + 1]
            for k in range(hot + 1, count - 1):
                starts[k] = starts[k + 1]
                ends[k] = ends[k + 1]
            count -= 1
        elif touches_left:
            ends[hot] = number
        elif touches_right:
            hot += 1
            starts[hot] = number
        else:
            hot += 1
            for k in range(count, hot, -1):
                starts[k] = starts[k - 1]
                ends[k] = ends[k - 1]
            starts[hot] = number
            ends[hot] = number
            count += 1
            if count > capacity:
                given_up += starts[1] - ends[0] - 1
                ends[0] = ends[1]
                for k in range(1, count - 1):
                    starts[k] = starts[k + 1]
                    ends[k] = ends[k + 1]
                count -= 1
                hot = max(hot - 1, 0)
    return count, given_up


def admit_plainly(ranges: list[tuple[int, int]], capacity: int, sequences: list[int]) -> tuple[list[bool], int]:
    """The same on a list of (start, end), changed in place; returns the flags and how many were given up.

    >>> ranges = [(1, 3)]
    >>> admit_plainly(ranges, capacity=8, sequences=[3, 5, 4])
    ([False, True, True], 0)
    >>> ranges
    [(1, 5)]
    """
    fresh: list[bool] = []
    given_up = 0
    for number in sequences:
        place = bisect_right(ranges, number, key=lambda pair: pair[0])
        new = place == 0 or ranges[place - 1][1] < number
        fresh.append(new)
        if not new:
            continue
        ranges.insert(place, (number, number))
        for left in (place, place - 1):
            if left >= 0 and left + 1 < len(ranges) and ranges[left][1] + 1 == ranges[left + 1][0]:
                ranges[left : left + 2] = [(ranges[left][0], ranges[left + 1][1])]
        if len(ranges) > capacity:
            given_up += ranges[1][0] - ranges[0][1] - 1
            ranges[0:2] = [(ranges[0][0], ranges[1][1])]
    return fresh, given_up
